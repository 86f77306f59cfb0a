"""Temporary rules as the API has them: added, listed, ended, and logged with who did it."""

from __future__ import annotations

import pytest

from tests.dashboard.conftest import Dashboard

pytestmark = pytest.mark.once

RULE = {"name": "one", "action": "hold"}


def test_a_capture_has_no_temporary_rules(dashboard: Dashboard) -> None:
    client = dashboard("confirms")
    assert client.get("/api/v1/sources/0/rules/temporary").status_code == 404
    assert client.post("/api/v1/sources/0/rules/temporary", json={"rule": RULE}).status_code == 404
    assert client.delete("/api/v1/sources/0/rules/temporary/one").status_code == 404


@pytest.mark.parametrize("seconds", [0, 86_401, "soon"])
def test_a_rule_is_for_a_day_at_most(seconds: object, dashboard: Dashboard) -> None:
    client = dashboard("confirms")
    answer = client.post("/api/v1/sources/0/rules/temporary", json={"rule": RULE, "seconds": seconds})
    assert answer.status_code == 422


def test_a_read_only_dashboard_adds_and_ends_none(dashboard: Dashboard) -> None:
    client = dashboard("confirms", read_only=True)
    assert client.post("/api/v1/sources/0/rules/temporary", json={"rule": RULE}).status_code == 403
    assert client.delete("/api/v1/sources/0/rules/temporary/one").status_code == 403
