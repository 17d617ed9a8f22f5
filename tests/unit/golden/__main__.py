"""``python -m tests.unit.golden``: write the golden files anew; read the difference before you commit it."""

from __future__ import annotations

import shutil

from provisioning.load import load_lab
from provisioning.render import render
from tests.unit.golden import FOLDER, LABS

for old in FOLDER.iterdir():
    if old.is_dir():
        shutil.rmtree(old)
for name in LABS:
    for path, text in render(load_lab(name)).items():
        target = FOLDER / name / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
