"""Evidence of findings names the commands."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dashboard.conftest import Dashboard

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    "capture", ["channel-error", "confirms.ports-reused", "kombu-table", "brokerj9.2__jms-010-errors"]
)
def test_the_evidence_has_the_method_of_its_command(dashboard: Dashboard, capture: str) -> None:
    client = dashboard(capture)
    rows = client.get("/api/v1/sources/0/findings").json()["rows"]
    shown = [client.get(f"/api/v1/sources/0/findings/{row['seq']}").json() for row in rows]
    evidence = [each for finding in shown for each in finding.get("evidence", ()) if "seq" in each]
    assert evidence
    for each in evidence:
        command: dict[str, Any] = each["command"]
        frame = client.get(f"/api/v1/sources/0/frames/{each['seq']}").json()["record"]
        assert "." in command["method"]
        assert command["seq"] <= each["seq"]
        assert [command[name] for name in ("stream", "from", "channel")] == [
            frame[name] for name in ("stream", "from", "channel")
        ]
        if "method" in frame:
            assert command == frame
    assert client.get("/api/v1/sources/0/findings/999").status_code == 404
