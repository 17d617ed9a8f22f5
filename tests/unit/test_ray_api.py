"""Questions to Ray's dashboard."""

from __future__ import annotations

import io
import json
import urllib.request
from types import SimpleNamespace
from typing import Any

import pytest

from provisioning import ray_api


@pytest.mark.parametrize(("path", "asked"), [("/nodes?view=summary", "&nocache=1"), ("/logical/actors", "?nocache=1")])
def test_the_dashboard_is_not_asked_for_what_it_told_somebody_else_before(
    monkeypatch: pytest.MonkeyPatch, path: str, asked: str
) -> None:
    seen: list[str] = []

    def opener(*_: Any) -> SimpleNamespace:
        def open_(request: urllib.request.Request, timeout: float) -> io.StringIO:  # noqa: ARG001 - urllib's name
            seen.append(request.full_url)
            return io.StringIO(json.dumps({"data": 1}))

        return SimpleNamespace(open=open_)

    monkeypatch.setattr(urllib.request, "build_opener", opener)
    cluster: Any = SimpleNamespace(ray_token=lambda: "t", dashboard="127.0.0.1:8265")
    assert ray_api.get(cluster, path) == {"data": 1}
    assert seen == [f"http://127.0.0.1:8265{path}{asked}"]
