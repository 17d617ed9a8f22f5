#!/usr/bin/env python3
"""Train a small network, and survive being stopped.          python3 train.py --epochs 5 --checkpoint run.json

A network of two layers learns which points of a square lie inside a ring. It is written in plain Python, so that the
same file runs under Slurm and under Ray, whatever is installed there.

What to expect: one line an epoch, with a loss that falls and an accuracy that rises:

    epoch 1/5  loss 0.6496  accuracy 0.585
    epoch 2/5  loss 0.5474  accuracy 0.727  ...

With --checkpoint PATH the state is saved after every epoch, and a run that finds PATH goes on from there, with the same
numbers as a run that was never stopped. Stopped by SIGTERM (scancel, preemption, time limit, `ray job stop`) it saves
at once, says so, and exits with 143 = 128 + 15. Not with 0: the training is not done, and whatever waits for its
success (sbatch --dependency=afterok, a script) must not go on. Slurm does not need the number: it knows that it stopped
the job, records CANCELLED, TIMEOUT or PREEMPTED, and requeues a preempted job either way.
"""

import argparse
import json
import math
import os
import random
import signal
import sys
import time
from pathlib import Path

HIDDEN = 12
POINTS = 600
BATCH = 10
RATE = 0.25
STOPPED = 128 + signal.SIGTERM


def ring(points, seed=1):
    """Points of the square [-1, 1]^2, labelled 1 inside the ring 0.35 < r < 0.8."""
    rng = random.Random(seed)
    square = [(rng.uniform(-1, 1), rng.uniform(-1, 1)) for _ in range(points)]
    return [(x, y, 1.0 if 0.35 < math.hypot(x, y) < 0.8 else 0.0) for x, y in square]


class Network:
    """tanh(W1 x + b1), then a logistic output; one gradient step a batch."""

    def __init__(self, state=None):
        rng = random.Random(2)
        # The inputs are x, y, x*x, y*y and 1: a ring is a matter of squares.
        self.w1 = state["w1"] if state else [[rng.gauss(0, 0.8) for _ in range(5)] for _ in range(HIDDEN)]
        self.w2 = state["w2"] if state else [rng.gauss(0, 0.3) for _ in range(HIDDEN + 1)]

    def forward(self, x, y):
        """The inputs, the hidden values, and the probability that the point lies in the ring."""
        inputs = (x, y, x * x, y * y, 1.0)
        hidden = [math.tanh(sum(w * i for w, i in zip(row, inputs, strict=True))) for row in self.w1] + [1.0]
        total = sum(w * h for w, h in zip(self.w2, hidden, strict=True))
        return inputs, hidden, 1 / (1 + math.exp(-max(-30.0, min(30.0, total))))

    def step(self, batch):
        """Learn from one batch; return its summed loss and its number of hits."""
        g1 = [[0.0] * 5 for _ in self.w1]
        g2 = [0.0] * len(self.w2)
        loss = hits = 0
        for x, y, label in batch:
            inputs, hidden, p = self.forward(x, y)
            loss -= math.log(p if label else 1 - p)
            hits += (p > 0.5) == bool(label)
            error = p - label
            for j, h in enumerate(hidden):
                g2[j] += error * h
            for j, row in enumerate(g1):
                slope = error * self.w2[j] * (1 - hidden[j] ** 2)
                for k, i in enumerate(inputs):
                    row[k] += slope * i
        rate = RATE / len(batch)
        self.w1 = [[w - rate * g for w, g in zip(r, gr, strict=True)] for r, gr in zip(self.w1, g1, strict=True)]
        self.w2 = [w - rate * g for w, g in zip(self.w2, g2, strict=True)]
        return loss, hits


def save(path, state):
    """Write beside the file, then rename: a reader finds the old state or the new one, never half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with temporary.open("w") as out:
        json.dump(state, out)
        out.flush()
        os.fsync(out.fileno())
    temporary.replace(path)


def train(epochs, checkpoint, epoch_s, stopped):
    """Run until `epochs` are done or `stopped()` is true; return the exit status."""
    state = json.loads(checkpoint.read_text()) if checkpoint and checkpoint.exists() else None
    model = Network(state)
    epoch, batch, loss, hits = (state[k] for k in ("epoch", "batch", "loss", "hits")) if state else (0, 0, 0.0, 0)
    if state:
        print(f"resumed from {checkpoint}: {epoch} epochs and {batch} batches were done", flush=True)
    data = ring(POINTS)
    batches = POINTS // BATCH

    def keep():
        if checkpoint:
            at = {"epoch": epoch, "batch": batch, "loss": loss, "hits": hits}
            save(checkpoint, {**at, "w1": model.w1, "w2": model.w2})

    while epoch < epochs:
        order = random.Random(epoch).sample(data, len(data))  # the same order in a resumed run
        while batch < batches:
            if stopped():
                keep()
                where = f"saved in {checkpoint}, start again to go on" if checkpoint else "not saved: no --checkpoint"
                print(f"stopped by SIGTERM in epoch {epoch + 1}/{epochs}, batch {batch}: {where}", flush=True)
                return STOPPED
            batch_loss, batch_hits = model.step(order[batch * BATCH : (batch + 1) * BATCH])
            batch, loss, hits = batch + 1, loss + batch_loss, hits + batch_hits
            time.sleep(epoch_s / batches)
        epoch += 1
        print(f"epoch {epoch}/{epochs}  loss {loss / POINTS:.4f}  accuracy {hits / POINTS:.3f}", flush=True)
        batch, loss, hits = 0, 0.0, 0
        keep()
    print(f"done: {epoch} epochs", flush=True)
    return 0


def main():
    """Read the command line and train."""
    options = argparse.ArgumentParser(description="Train a small network, and survive being stopped.")
    options.add_argument("--epochs", type=int, default=5, help="epochs in all, resumed ones included")
    options.add_argument("--checkpoint", type=Path, help="save here, and go on from here")
    options.add_argument("--epoch-s", type=float, default=0.0, help="stretch each epoch by so many seconds")
    args = options.parse_args()
    seen = []
    signal.signal(signal.SIGTERM, lambda *_: seen.append(True))
    sys.exit(train(args.epochs, args.checkpoint, args.epoch_s, lambda: bool(seen)))


if __name__ == "__main__":
    main()
