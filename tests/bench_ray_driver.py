"""Rates of one Ray, as a driver on one of its nodes sees them: ``bench_ray_driver.py ADDRESS``, or ``local``: its own.
Prints one JSON line. Four workers at a time, whatever CPUs the nodes claim."""

import json
import sys
import time

import ray

TASKS, CALLS = 600, 600


def rate(count, action):
    """How many a second."""
    begun = time.perf_counter()
    action()
    return count / (time.perf_counter() - begun)


def main(address):
    """Warm up, then measure."""
    if address == "local":
        ray.init(num_cpus=32, include_dashboard=False, log_to_driver=False, object_store_memory=200_000_000)
    else:
        ray.init(address=address, log_to_driver=False)

    @ray.remote(num_cpus=8)
    def nothing():
        return None

    @ray.remote(num_cpus=8)
    class Counter:
        def __init__(self):
            self.count = 0

        def add(self):
            self.count += 1
            return self.count

    ray.get([nothing.remote() for _ in range(100)], timeout=120)
    tasks = rate(TASKS, lambda: ray.get([nothing.remote() for _ in range(TASKS)], timeout=120))
    counter = Counter.remote()
    first = ray.get(counter.add.remote(), timeout=60)
    calls = rate(CALLS, lambda: ray.get([counter.add.remote() for _ in range(CALLS)], timeout=120))
    assert ray.get(counter.add.remote(), timeout=60) == first + CALLS + 1
    print(json.dumps({"tasks": tasks, "calls": calls}))
    ray.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
