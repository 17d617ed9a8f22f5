"""The pytest fixture works from a directory of its own, as the author of another tool would use it."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from provisioning.cluster import Cluster, run_local


def test_the_readmes_example_runs_elsewhere(lab: Cluster, tmp_path: Path) -> None:
    readme = (lab.settings.root / "README.md").read_text(encoding="utf-8")
    example = re.search(r"```python\n(.*?)```", readme, re.S)
    assert example
    conftest, test = example.group(1).split("# test_my_tool.py\n")
    (tmp_path / "conftest.py").write_text(conftest, encoding="utf-8")
    (tmp_path / "test_my_tool.py").write_text(test, encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": str(lab.settings.root), "LAB": lab.settings.lab, "SLURM": lab.settings.slurm,
           "PROJECT": lab.settings.project, "DASHBOARD_PORT": lab.settings.dashboard}  # fmt: skip
    result = run_local([sys.executable, "-m", "pytest", "--rootdir", str(tmp_path), str(tmp_path), "-q"], env=env,
                       timeout_s=120)  # fmt: skip
    assert result.exit_code == 0, result.stdout + result.stderr
    assert "1 passed" in result.stdout
    assert lab.containers()["login"].state == "running"  # used, and left up
