"""Drills: faults to find and mend."""

from smoke.drills import drained_node, gres_mismatch, waiting_jobs

DRILLS = {one.DRILL.name: one.DRILL for one in (waiting_jobs, drained_node, gres_mismatch)}

__all__ = ["DRILLS"]
