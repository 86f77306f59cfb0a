"""Frames are marked, and an exported capture has the comments, as Wireshark shows them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from amqproxy.dashboard.settings import Settings
from tests.dashboard.conftest import Dashboard, client_of
from tests.real.require import require

pytestmark = pytest.mark.once

MARKS = "/api/v1/sources/0/marks"


@pytest.mark.parametrize("capture", ["confirms", "brokerj9.2__jms-010-request-reply"])
def test_an_exported_capture_has_the_comments(capture: str, dashboard: Dashboard, tmp_path: Path) -> None:
    client = dashboard(capture)
    rows = client.get("/api/v1/sources/0/frames").json()["rows"]
    one, other = rows[4]["seq"], rows[-1]["seq"]
    assert client.put(f"{MARKS}/{one}", json={"text": "why this? ✓"}).json() == {"marks": {str(one): "why this? ✓"}}
    client.put(f"{MARKS}/{other}", json={"text": "gone"})
    client.delete(f"{MARKS}/{other}")
    assert client.get(MARKS).json() == {"marks": {str(one): "why this? ✓"}}
    file = tmp_path / "marked.pcapng"
    file.write_bytes(client.get("/api/v1/sources/0/export", params={"format": "pcapng"}).content)
    tshark = [require("tshark"), "-r", str(file), "-Y", "frame.comment", "-T", "fields", "-e", "frame.comment"]
    shown = subprocess.run(tshark, capture_output=True, text=True, check=True).stdout
    assert shown.count("why this? ✓") == 1
    assert "gone" not in shown
    with client_of(Settings(captures=(file,))) as again:
        marks = again.get(MARKS).json()["marks"]
        assert [*marks.values()] == ["why this? ✓"]
        [before], [after] = ([each for each in rows if each["seq"] == one], frames_at(again, int(*marks)))
        assert {**before, "seq": 0, "stream": 0, "ts_ns": 0} == {**after, "seq": 0, "stream": 0, "ts_ns": 0}
        assert again.get("/api/v1/sources/0/export", params={"format": "pcapng"}).content.count("✓".encode()) == 1
        again.delete(f"{MARKS}/{int(*marks)}")
        assert "✓".encode() not in again.get("/api/v1/sources/0/export", params={"format": "pcapng"}).content


def frames_at(client: TestClient, seq: int) -> list[dict[str, Any]]:
    return [each for each in client.get("/api/v1/sources/0/frames").json()["rows"] if each["seq"] == seq]


def test_comments_of_another_tool_are_marks(dashboard: Dashboard, tmp_path: Path) -> None:
    """Wireshark's editcap gives a packet a comment."""
    source = tmp_path / "plain.pcapng"
    source.write_bytes(dashboard("confirms").get("/api/v1/sources/0/export", params={"format": "pcapng"}).content)
    tshark = [require("tshark"), "-r", str(source), "-Y", "tcp.len > 0", "-T", "fields", "-e", "frame.number"]
    numbers = subprocess.run(tshark, capture_output=True, text=True, check=True).stdout.split()
    file = tmp_path / "commented.pcapng"
    subprocess.run([require("editcap"), "-a", f"{numbers[3]}:look here", str(source), str(file)], check=True)
    with client_of(Settings(captures=(file,))) as client:
        assert [*client.get(MARKS).json()["marks"].values()] == ["look here"]


def test_only_rows_that_are_kept_are_marked(dashboard: Dashboard) -> None:
    assert dashboard("confirms").put(f"{MARKS}/99999", json={"text": "x"}).status_code == 404


def test_a_read_only_dashboard_marks_nothing(dashboard: Dashboard) -> None:
    client = dashboard("confirms", read_only=True)
    assert client.put(f"{MARKS}/1", json={"text": "x"}).status_code == 403
    assert client.delete(f"{MARKS}/1").status_code == 403
