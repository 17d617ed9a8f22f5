"""What ends a command from outside: Ctrl-C, SIGTERM, a terminal that is closed. See signal(7).

The first of them unwinds the command through its clean-up. Later ones do not cut that short: each wait in it has a
bound, and make sends SIGTERM on to a command that has it already.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from provisioning.errors import LabError, print_error

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: What a shell says of a command that ended by Ctrl-C.
EXIT_STATUS = 130
_heeding = False


@contextmanager
def heeded() -> Iterator[None]:
    """In the block the first signal raises KeyboardInterrupt, later ones do nothing. Inside another such block, and
    outside the main thread, nothing changes; a signal that is ignored (nohup) stays so."""
    global _heeding
    if _heeding:
        yield
        return
    heard = False

    def stop(*_: object) -> None:
        nonlocal heard
        if not heard:
            heard = True
            raise KeyboardInterrupt

    try:
        before = {one: signal.signal(one, stop) for one in SIGNALS if signal.getsignal(one) is not signal.SIG_IGN}
    except ValueError:  # only the main thread hears signals
        yield
        return
    _heeding = True
    try:
        yield
    finally:
        _heeding = False
        for one, handler in before.items():
            signal.signal(one, handler)


def hear() -> None:
    """Let in, inside the block, what came while the program started: the Makefile blocks signals until now."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def say_interrupted(next_step: str) -> int:
    """Tell a person; return the exit status."""
    print_error(LabError("interrupted", next_step))
    return EXIT_STATUS
