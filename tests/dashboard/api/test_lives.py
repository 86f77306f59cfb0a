"""Lives of messages as the API has them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dashboard.conftest import Dashboard

pytestmark = pytest.mark.once


def _rows(client: Any, kind: str) -> list[dict[str, Any]]:
    return [row for row in client.get("/api/v1/sources/0/messages").json()["rows"] if row["type"] == kind]


@pytest.mark.parametrize("capture", ["publish-get-ack", "brokerj9.2__jms-010-tx"])
def test_a_publish_and_its_delivery_have_the_same_life(dashboard: Dashboard, capture: str) -> None:
    client = dashboard(capture)
    deliveries = [*_rows(client, "deliver"), *_rows(client, "get")]
    for row in deliveries:
        life = client.get(f"/api/v1/sources/0/messages/{row['seq']}/life").json()["life"]
        assert (row["ts_ns"], row["outcome"]) in [(each["ts_ns"], each["outcome"]) for each in life["deliveries"]]
    for row in _rows(client, "publish"):
        life = client.get(f"/api/v1/sources/0/messages/{row['seq']}/life").json()["life"]
        assert (life["publish"]["number"], life["publish"]["outcome"]) == (row["number"], row["outcome"])
    assert deliveries


def test_a_request_has_none(dashboard: Dashboard) -> None:
    client = dashboard("publish-get-ack")
    seq = _rows(client, "request")[0]["seq"]
    assert client.get(f"/api/v1/sources/0/messages/{seq}/life").json() == {"life": None}


def test_lives_are_found_by_what_they_have(dashboard: Dashboard) -> None:
    client = dashboard("publish-get-ack")

    def asked(**parameters: str | int) -> list[dict[str, Any]]:
        answer = client.get("/api/v1/sources/0/lives", params=parameters).json()
        assert answer["since_ns"] == min(row["ts_ns"] for row in _rows(client, "publish"))
        return answer["lives"]  # type: ignore[no-any-return]

    assert len(asked(message_id="m-1")) == len(asked(exchange="orders")) == 2
    assert len(asked(message_id="m-1", limit=1)) == 1
    assert asked(message_id="m-2") == asked(queue="none") == asked(start="+100") == []
