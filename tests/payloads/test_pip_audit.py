"""pip-audit as `make scan` calls it, against a server on this machine that answers as OSV does."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from provisioning.errors import LabError
from provisioning.scan import Hole, python_holes

#: OSV's answer for one package, of the schema that it documents; for all others it says {}.
ANSWER = {"vulns": [{"id": "PYSEC-2018-32", "schema_version": "1.7.0", "summary": "CRLF injection", "affected": [
    {"package": {"name": "urllib3", "ecosystem": "PyPI"},
     "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.24.3"}]}]}]}]}  # fmt: skip


class Osv(BaseHTTPRequestHandler):
    """Answers as OSV does, of one package only."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps(ANSWER if asked["package"]["name"] == "urllib3" else {}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        """Say nothing."""


@pytest.fixture(name="_osv")
def osv(monkeypatch: pytest.MonkeyPatch) -> Iterator[HTTPServer]:
    with HTTPServer(("127.0.0.1", 0), Osv) as server:
        monkeypatch.setenv("PIP_AUDIT_OSV_URL", f"http://127.0.0.1:{server.server_port}/v1/query")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_pip_audit_finds_a_known_hole(_osv: HTTPServer) -> None:
    assert python_holes("urllib3==1.24.1\nidna==3.7\n") == [Hole("urllib3", "1.24.1", "1.24.3", "PYSEC-2018-32")]


def test_where_the_data_cannot_be_reached_there_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_AUDIT_OSV_URL", "http://127.0.0.1:9/v1/query")
    with pytest.raises(LabError, match=r"pip-audit: no answer about known holes: .*Connection refused") as caught:
        python_holes("idna==3.7\n")
    assert "\n" not in caught.value.what
