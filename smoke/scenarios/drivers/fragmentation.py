"""Two bundles of a whole worker each, beside small tasks and before them: ``fragmentation.py 5 6``."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import ray  # type: ignore[import-not-found,unused-ignore]
from ray.util.placement_group import (  # type: ignore[import-not-found,unused-ignore]
    placement_group,
    remove_placement_group,
)

PATIENCE_S = 3
BOUND_S = 20


def gpus() -> float:
    """GPUs nobody holds."""
    return float(ray.available_resources().get("GPU", 0))


def until(wanted: float) -> float:
    """The free GPUs, given a moment to come to ``wanted``: nodes report with a short delay."""
    end = time.monotonic() + BOUND_S
    while gpus() != wanted and time.monotonic() < end:
        time.sleep(0.1)
    return gpus()


class Holder:
    """Holds GPUs as long as it lives."""

    def here(self) -> bool:
        """It has started."""
        return True


def holders(taken: list[int]) -> list[Any]:
    """One actor for each number."""
    return [ray.remote(Holder).options(num_gpus=count, num_cpus=0).remote() for count in taken]


def main() -> dict[str, object]:
    """Both orders."""
    taken = [int(word) for word in sys.argv[1:]]
    ray.init(address="auto", log_to_driver=False)
    total = float(ray.cluster_resources().get("GPU", 0))
    if until(total) != total:
        return {"error": f"{total - gpus():g} of {total:g} GPUs of Ray's pool are in use; a scenario needs all of them"}
    whole = total / len(taken)
    bundles = [{"GPU": whole} for _ in taken]
    small = holders(taken)
    ray.get([one.here.remote() for one in small], timeout=BOUND_S)
    idle = until(total - sum(taken))
    group = placement_group(bundles, strategy="STRICT_SPREAD")
    beside = group.wait(PATIENCE_S)
    for one in small:
        ray.kill(one)
    after = group.wait(BOUND_S)
    late = holders(taken)
    begun, _ = ray.wait([one.here.remote() for one in late], num_returns=len(late), timeout=PATIENCE_S)
    remove_placement_group(group)
    ran, _ = ray.wait([one.here.remote() for one in late], num_returns=len(late), timeout=BOUND_S)
    for one in late:
        ray.kill(one)
    until(total)
    return {"idle": idle, "placed_beside": beside, "placed_after": after, "invaded": len(begun), "ran_after": len(ran)}


if __name__ == "__main__":
    print(json.dumps(main()))
