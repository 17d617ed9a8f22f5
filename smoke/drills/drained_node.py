"""A node that somebody took out of use, and forgot."""

from __future__ import annotations

from provisioning.cluster import Cluster
from smoke.drill import Drill, operator
from smoke.drills.nodes import out_of_use, resume, submit_over_all, victim

REASON = "fan replaced, please test"


def plant(cluster: Cluster) -> None:
    """Drain the last node, as for a repair that is long over."""
    operator(cluster, "scontrol", "update", f"NodeName={victim(cluster)}", "State=DRAIN", f"Reason={REASON}")
    submit_over_all(cluster)


def trouble(cluster: Cluster) -> str:
    """Whether the node is still out of use."""
    return out_of_use(cluster, victim(cluster))


DRILL = Drill(
    name="drained-node",
    title="My job waits, but the cluster is empty",
    story="""A user's job asks for every GPU node. Nothing else runs, and yet it waits.""",
    hints=(
        "squeue shows the job's reason; sinfo -R lists nodes that are out of use, who took them out, and why.",
        "A drained node finishes its jobs and gets no new ones. It does not come back by itself: somebody said so.",
        """As operator (make shell AS=root): scontrol update NodeName=NODE State=RESUME. The job starts within
        seconds.""",
    ),
    plant=plant,
    trouble=trouble,
    mend=resume,
)
