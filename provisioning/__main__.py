"""``python -m provisioning COMMAND``: what the Makefile's targets call."""

from __future__ import annotations

import signal

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback while nothing has begun; main heeds it

import argparse
import json
import os
import sys
from collections.abc import Callable

from provisioning.errors import LabError, print_error
from provisioning.interrupt import hear, heeded, say_interrupted
from provisioning.settings import Settings

# Each command imports what it needs when it runs: `up` on a running lab is to take a second, not three.


def _up(settings: Settings, _args: argparse.Namespace) -> int:
    from provisioning.up import up

    return up(settings)


def _down(settings: Settings, _args: argparse.Namespace) -> int:
    from provisioning.up import down

    return down(settings)


def _destroy(settings: Settings, _args: argparse.Namespace) -> int:
    from provisioning.up import destroy

    return destroy(settings)


def _status(settings: Settings, _args: argparse.Namespace) -> int:
    from provisioning.status import status

    return status(settings)


def _check(settings: Settings, _args: argparse.Namespace) -> int:
    from provisioning.load import load_lab

    print(f"{load_lab(settings.lab).name}: valid")
    return 0


def _schema(_settings: Settings, _args: argparse.Namespace) -> int:
    from provisioning.schema import schema

    print(json.dumps(schema(), indent=2))
    return 0


def _new(settings: Settings, args: argparse.Namespace) -> int:
    from provisioning.new import new_lab

    path = new_lab(settings.lab, model=args.model)
    print(f"{path}: edit it, then LAB={settings.lab} make check, LAB={settings.lab} make up")
    return 0


def _shell(settings: Settings, args: argparse.Namespace) -> int:
    from provisioning.access import shell

    return shell(settings, args.user, args.node)


def _logs(settings: Settings, args: argparse.Namespace) -> int:
    from provisioning.access import logs

    return logs(settings, args.node, args.since, args.lines)


def _token(settings: Settings, _args: argparse.Namespace) -> int:
    from provisioning.access import token

    return token(settings)


def _dashboard(settings: Settings, _args: argparse.Namespace) -> int:
    from provisioning.access import dashboard

    return dashboard(settings)


def _images(settings: Settings, args: argparse.Namespace) -> int:
    from provisioning.engine import ensure_engine
    from provisioning.images import ensure_images
    from provisioning.progress import Progress

    with Progress() as progress:
        ensure_engine(lambda text: progress.say("engine", text))
        ensure_images(settings.slurm, lambda text: progress.say("images", text), fresh=args.fresh)
    return 0


def _scan(settings: Settings, _args: argparse.Namespace) -> int:
    from provisioning.scan import scan_command

    return scan_command(settings)


def _engine_stop(_settings: Settings, _args: argparse.Namespace) -> int:
    from provisioning.engine import stop_engine

    stop_engine(print)
    return 0


def _plan(settings: Settings, args: argparse.Namespace) -> int:
    from provisioning.plan import plan_command

    return plan_command(settings, as_json=args.json)


def _apply(settings: Settings, args: argparse.Namespace) -> int:
    from provisioning.apply import apply_command

    return apply_command(settings, force=args.force)


def _ray_scale(settings: Settings, args: argparse.Namespace) -> int:
    from provisioning.ray_scale import ray_scale

    return ray_scale(settings, args.count)


def _doctor(settings: Settings, _args: argparse.Namespace) -> int:
    from provisioning.doctor import doctor

    return doctor(settings)


def _bundle(settings: Settings, args: argparse.Namespace) -> int:
    from provisioning.archive import bundle_command

    return bundle_command(settings, args.out)


def _rotate_secrets(settings: Settings, args: argparse.Namespace) -> int:
    from provisioning.rotate import rotate_command

    return rotate_command(settings, force=args.force)


Command = Callable[[Settings, argparse.Namespace], int]
COMMANDS: dict[str, tuple[Command, str]] = {
    "up": (_up, "bring the lab up"),
    "down": (_down, "remove the containers, keep the state"),
    "destroy": (_destroy, "remove the lab with its state"),
    "status": (_status, "one screen of what the lab is doing"),
    "doctor": (_doctor, "find what is wrong and say what to do"),
    "check": (_check, "check the lab's YAML"),
    "schema": (_schema, "print the JSON Schema of a lab's YAML"),
    "new": (_new, "a commented copy of a lab, to edit"),
    "plan": (_plan, "show how the running lab differs from its YAML"),
    "apply": (_apply, "make the running lab what its YAML says"),
    "ray-scale": (_ray_scale, "change the number of Ray workers of the running lab"),
    "shell": (_shell, "a shell on a node"),
    "logs": (_logs, "the last lines of the logs"),
    "token": (_token, "print Ray's token"),
    "dashboard": (_dashboard, "print the dashboard's address"),
    "bundle": (_bundle, "write an archive for whoever helps, without secrets"),
    "rotate-secrets": (_rotate_secrets, "give a lab a new Slurm key, database password and Ray token"),
    "images": (_images, "build the images"),
    "scan": (_scan, "known holes in the images; exit status 1: with a fix, 2: it could not look"),
    "engine-stop": (_engine_stop, "stop the engine if the lab started it"),
}


def parser() -> argparse.ArgumentParser:
    """The command line; the lab is chosen by environment variables, see Settings."""
    top = argparse.ArgumentParser(prog="python -m provisioning", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    made = {name: commands.add_parser(name, help=text, description=text) for name, (_, text) in COMMANDS.items()}
    made["new"].add_argument("--from", dest="model", default="default", help="the lab to copy")
    made["shell"].add_argument("--user", default="alice")
    made["shell"].add_argument("--node", default="login")
    made["logs"].add_argument("--node", default="", help="a service, such as c1; all of them if not given")
    made["logs"].add_argument("--since", default="", help="such as 10m")
    made["logs"].add_argument("--lines", default="60", help="how many lines, or all")
    made["plan"].add_argument("--json", action="store_true", help="for programs")
    made["apply"].add_argument("--force", action="store_true", help="remove nodes although jobs run on them")
    made["bundle"].add_argument("--out", default="", help="the file to write")
    made["rotate-secrets"].add_argument("--force", action="store_true", help="although jobs run, which it ends")
    made["images"].add_argument("--fresh", action="store_true", help="all of them, with the newest packages")
    made["ray-scale"].add_argument("--count", default="", help="how many")
    return top


def main(argv: list[str] | None = None) -> int:
    """Run one command; an error is one clear line and a next step, never a traceback."""
    args = parser().parse_args(argv)
    with heeded():
        try:
            hear()
            return COMMANDS[args.command][0](Settings.from_env(), args)
        except LabError as error:
            print_error(error)
            return 1
        except KeyboardInterrupt:
            return say_interrupted(f"make {args.command} again goes on from here")
        except BrokenPipeError:
            # `make logs | head`: the reader has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0


if __name__ == "__main__":
    sys.exit(main())
