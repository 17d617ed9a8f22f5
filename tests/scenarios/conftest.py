"""The running lab that the scenarios are played on."""

from __future__ import annotations

pytest_plugins = ["provisioning.pytest_plugin"]
