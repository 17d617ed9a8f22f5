"""The rendered files of every shipped lab, and the way to renew them."""

from __future__ import annotations

from pathlib import Path

from provisioning.settings import ROOT

FOLDER = Path(__file__).parent
LABS = sorted(path.stem for path in (ROOT / "provisioning" / "labs").glob("*.yaml"))
