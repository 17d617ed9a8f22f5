"""``python -m smoke [COMMAND ...]``: the smoke run, or another tool, which is loaded when it is called."""

from __future__ import annotations

import signal

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback while nothing has begun; main heeds it

import importlib
import importlib.util
import sys

from provisioning.errors import LabError, print_error
from provisioning.interrupt import hear, heeded, say_interrupted

#: command: (module with main(argv) -> exit status, help)
COMMANDS = {
    "run": ("smoke.run", "the smoke run: the main job end to end (the default)"),
    "scenario": ("smoke.scenario", "run scenarios: prediction beside measurement"),
    "drill": ("smoke.drill", "plant a fault to find and mend"),
    "replay": ("smoke.replay", "play a workload of any jobs: a YAML file or a trace"),
    "chaos": ("smoke.chaos.command", "faults at random under load, and what must hold"),
    "report": ("smoke.report", "the last result of each scenario as one page"),
    "timeline": ("smoke.report_timeline", "who held which GPU in the last hours, as one page"),
    "predict": ("smoke.predict", "a calculator over the models, without a lab"),
    "audit": ("smoke.audit", "find GPUs that are held twice or used without a grant"),
    "ray-on-slurm": ("smoke.ray_on_slurm", "run a Ray driver inside a Slurm allocation"),
}


def usage() -> str:
    """The commands that this checkout has, one a line."""
    there = {name: text for name, (module, text) in COMMANDS.items() if importlib.util.find_spec(module)}
    lines = [f"  {name:<14}{text}" for name, text in there.items()]
    return "\n".join(["usage: python -m smoke [COMMAND ...]   (COMMAND --help says more)", "", *lines])


def main(argv: list[str]) -> int:
    """Hand over to the command's module; its LabError becomes two lines and exit status 1."""
    if argv and argv[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    name, rest = (argv[0], argv[1:]) if argv and not argv[0].startswith("-") else ("run", argv)
    if name not in COMMANDS or not importlib.util.find_spec(COMMANDS[name][0]):
        print(f"error: no command {name!r}\n  next: python -m smoke --help", file=sys.stderr)
        return 2
    with heeded():
        try:
            hear()
            status: int = importlib.import_module(COMMANDS[name][0]).main(rest)
        except LabError as error:
            print_error(error)
            return 1
        except KeyboardInterrupt:
            return say_interrupted(f"make {'smoke' if name == 'run' else name} again starts anew")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
