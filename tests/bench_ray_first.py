"""The moment at which the first task of a Ray inside a job runs; prints it in epoch seconds."""

import time

import ray


@ray.remote
def now():
    """Epoch seconds on the node of this task."""
    return time.time()


ray.init(log_to_driver=False)
print("first task", ray.get(now.remote(), timeout=60))
