"""The phenomena, staged: one module each, in the order in which the course tells them."""

from __future__ import annotations

from smoke.scenario import Scenario
from smoke.scenarios import (
    backfill,
    elastic_rlhf,
    failure,
    fairshare,
    fragmentation,
    fragmentation_cures,
    gang_deadlock,
    granularity,
    preemption,
    preemption_modes,
    utilization,
    which_scheduler,
)

SCENARIOS: dict[str, Scenario] = {
    one.SCENARIO.name: one.SCENARIO
    for one in (
        fragmentation,
        fragmentation_cures,
        backfill,
        preemption,
        preemption_modes,
        utilization,
        fairshare,
        granularity,
        gang_deadlock,
        elastic_rlhf,
        failure,
        which_scheduler,
    )
}
