"""Signals are heard in the tests, also where whoever started them ignores some: a script in the background, nohup."""

from __future__ import annotations

import signal

from provisioning.interrupt import SIGNALS

for one in SIGNALS:
    if signal.getsignal(one) is signal.SIG_IGN:
        signal.signal(one, signal.default_int_handler if one is signal.SIGINT else signal.SIG_DFL)
