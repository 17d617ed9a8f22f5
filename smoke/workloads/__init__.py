"""Workloads for ``make replay``, and what made the larger one."""
