"""Ladders over the API."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from amqproxy.dashboard.api import sequence
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


def test_a_ladder_that_is_cut_says_where_it_goes_on(dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    client = dashboard("confirms")
    whole = ladder(client)
    assert (whole["is_cut"], whole["next_start"]) == (False, None)
    monkeypatch.setattr(sequence, "MAX_FRAMES", 12)
    parts = [ladder(client)]
    while parts[-1]["is_cut"]:
        assert len(parts) < 32
        parts.append(ladder(client, start=parts[-1]["next_start"]))
    assert len(parts) > 2
    assert set(titles(whole)) == {title for part in parts for title in titles(part)}


def titles(found: dict[str, Any]) -> list[str]:
    """What is on the rungs, of groups, too."""
    items = [item for section in found["sections"] for item in section["items"]]
    return [row["title"] for item in items for row in item.get("rows", [item])]
