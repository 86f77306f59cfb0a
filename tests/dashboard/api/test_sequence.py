"""Ladders over the API."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from dashboard.api import sequence
from tests.dashboard.conftest import Dashboard

pytestmark = pytest.mark.once


def ladder(client: TestClient, **query: Any) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/api/v1/sources/0/sequence", params=query).json()
    return found


def test_a_ladder_that_takes_too_long_is_of_what_was_looked_at(
    dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = dashboard("confirms")
    whole = ladder(client)
    assert (whole["is_cut"], bool(whole["sections"])) == (False, True)
    monkeypatch.setattr(sequence, "MAX_SECONDS", 0.0)
    cut = ladder(client)
    assert (cut["is_cut"], cut["sections"]) == (True, [])
