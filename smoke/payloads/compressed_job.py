#!/usr/bin/env python3
"""A job that computes by waiting, on a clock where a minute lasts --scale seconds.

    sbatch -G 1 compressed_job.py --work 480 --checkpoint-every 30 --checkpoint-cost 2 --scale 0.1 --state s.json

With --checkpoint-every it saves its progress in --state and goes on from there when it is started again. Stopped by
SIGTERM (scancel, preemption, time limit) it saves nothing, as a job does that is taken by surprise, and exits with 143.

What to expect in --log: one line of JSON for each thing that happens, with the second at which it did:

    {"t": 1700000000.12, "event": "start", "progress": 0, "restart": 0, "job": "7"}
    {"t": 1700000003.12, "event": "checkpoint", "progress": 30.0, "restart": 0, "job": "7"}  ...
    {"t": 1700000051.32, "event": "end", "progress": 480.0, "restart": 0, "job": "7"}

--after FILE waits for a file before the work, --done FILE makes one after it, --until FILE then stays (and keeps what
the job holds) until there is another.
"""

import argparse
import json
import math
import os
import signal
import sys
import time
from pathlib import Path

STOPPED = 128 + signal.SIGTERM


class Stopped(BaseException):
    """SIGTERM came."""


def stop(*_):
    """Leave whatever is being waited for."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Stopped


class Job:
    """Work that is a wait."""

    def __init__(self, args):
        self.args = args
        self.progress = 0.0
        self.since = None  # the second at which the work towards the next checkpoint began

    def note(self, event, at=None):
        """Write down that something happened."""
        line = {"t": round(at or time.time(), 3), "event": event, "progress": round(self.progress, 3)}
        line["restart"] = int(os.environ.get("SLURM_RESTART_COUNT", 0))
        line["job"] = os.environ.get("SLURM_JOB_ID", "")
        if self.args.log:
            with self.args.log.open("a") as out:  # one short write: lines of several jobs do not mix
                out.write(json.dumps(line) + "\n")
        print(json.dumps(line), flush=True)

    def wait_until(self, instant):
        """Sleep until a second since 1970."""
        while (left := instant - time.time()) > 0:
            time.sleep(left)

    def wait_for(self, path):
        """Sleep until a file is there."""
        while path and not path.exists():
            time.sleep(0.02)

    def compute(self):
        """Wait out the work that is left, with its checkpoints; late wake-ups do not add up."""
        args, clock = self.args, time.time()
        every = args.checkpoint_every or math.inf
        while self.progress < args.work:
            goal = min(
                args.work, (math.floor(self.progress / every + 1e-9) + 1) * every if every < math.inf else args.work
            )
            self.since, clock = clock, clock + (goal - self.progress) * args.scale
            self.wait_until(clock)
            self.progress, self.since = goal, None
            if every < math.inf and abs(goal / every - round(goal / every)) < 1e-9:
                clock += args.checkpoint_cost * args.scale
                self.wait_until(clock)
                self.save()
                self.note("checkpoint")

    def save(self):
        """Write beside the file, then rename: a reader finds one whole state."""
        temporary = self.args.state.with_suffix(".tmp")
        temporary.write_text(json.dumps({"progress": self.progress}))
        temporary.replace(self.args.state)

    def run(self):
        """The whole life of the job; returns its exit status."""
        args = self.args
        signal.signal(signal.SIGTERM, stop)
        try:
            if args.checkpoint_every and args.state.exists():
                self.progress = json.loads(args.state.read_text())["progress"]
            self.note("start")
            self.wait_for(args.after)
            if args.after:
                self.note("work")
            self.compute()
            if args.done:
                args.done.touch()
            self.note("end")
            self.wait_for(args.until)
        except Stopped:
            now = time.time()
            if self.since:
                self.progress += (now - self.since) / args.scale
            self.note("stopped", now)
            return STOPPED
        return 0


def main():
    """Read the arguments and run."""
    options = argparse.ArgumentParser(description="A job that computes by waiting, on a compressed clock.")
    options.add_argument("--work", type=float, required=True, help="minutes of work")
    options.add_argument("--scale", type=float, default=1.0, help="seconds that a minute lasts")
    options.add_argument("--checkpoint-every", type=float, default=0, help="minutes of progress between checkpoints")
    options.add_argument("--checkpoint-cost", type=float, default=0, help="minutes one checkpoint takes")
    options.add_argument("--state", type=Path, help="where the progress is saved")
    options.add_argument("--log", type=Path, help="append what happens here")
    options.add_argument("--after", type=Path, help="begin the work when this file is there")
    options.add_argument("--done", type=Path, help="make this file after the work")
    options.add_argument("--until", type=Path, help="stay until this file is there")
    args = options.parse_args()
    if args.checkpoint_every and not args.state:
        options.error("--checkpoint-every needs --state")
    sys.exit(Job(args).run())


if __name__ == "__main__":
    main()
