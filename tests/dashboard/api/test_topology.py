"""Topology, flows and pages of names, over the API, of captures of both protocols."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.dashboard.conftest import Dashboard

pytestmark = pytest.mark.once

SOURCE = "/api/v1/sources/0"


def subject(client: TestClient, kind: str, name: str, **more: str) -> dict[str, Any]:
    response = client.get(f"{SOURCE}/subjects/{kind}", params={"name": name, **more})
    assert response.status_code == 200
    found: dict[str, Any] = response.json()
    return found


def test_the_topology_of_a_capture(dashboard: Dashboard) -> None:
    client = dashboard("publish-get-ack")
    found = client.get(f"{SOURCE}/topology").json()
    kinds = {each["kind"] for each in found["topology"]}
    assert {"exchange", "queue", "binding"} <= kinds
    assert client.get(f"{SOURCE}/topology", params={"vhost": "other"}).json()["topology"] == []


@pytest.mark.parametrize(
    ("capture", "kinds"), [("publish-get-ack", {"published", "delivered"}), ("brokerj9.2__jms-010-tx", {"published"})]
)
def test_flows_name_clients_users_and_queues(capture: str, kinds: set[str], dashboard: Dashboard) -> None:
    found = dashboard(capture).get(f"{SOURCE}/flows").json()
    assert found["seconds"] >= 1
    assert found["is_complete"]
    for kind in kinds:
        assert all(each["client"] and each["user"] and each["rate"] > 0 for each in found[kind])
        assert found[kind]


@pytest.mark.parametrize("capture", ["publish-get-ack", "brokerj9.2__jms-010-tx"])
def test_each_name_has_its_page(capture: str, dashboard: Dashboard) -> None:
    client = dashboard(capture)
    flows = client.get(f"{SOURCE}/flows").json()
    flow = flows["published"][0]
    by_client = subject(client, "client", flow["client"], user=flow["user"])
    assert by_client["connections"][0]["user"] == flow["user"]
    assert by_client["totals"]["published"]["messages"] >= flow["messages"]
    assert by_client["declared"]
    assert subject(client, "user", flow["user"])["totals"] == by_client["totals"]
    assert subject(client, "exchange", flow["exchange"], vhost=flow["vhost"])["published"][0] == flow
    queue = next(each for each in by_client["declared"] if each["kind"] == "queue")
    by_queue = subject(client, "queue", queue["name"])
    assert by_queue["objects"] == [queue]
    assert queue["declared_by"]["user"] == flow["user"]


def test_a_name_that_nobody_used_has_an_empty_page(dashboard: Dashboard) -> None:
    found = subject(dashboard("publish-get-ack"), "queue", "nothing(")
    assert (found["objects"], found["findings"], found["totals"]["delivered"]["messages"]) == ([], [], 0)


def test_errors_and_findings_are_on_the_page_of_their_client(dashboard: Dashboard) -> None:
    client = dashboard("channel-error")
    found = subject(client, "client", "127.0.0.1")
    assert found["errors"][0]["code"] == 404
    assert found["findings"]
    kinds = {each["kind"] for each in found["findings"]}
    assert "channel-error" in kinds


def test_one_connection_has_its_errors_and_findings(dashboard: Dashboard) -> None:
    found = dashboard("channel-error").get(f"{SOURCE}/connections/0").json()
    assert [each["what"] for each in found["errors"]] == ["channel closed"]
    assert found["errors"][0]["stream"] == 0
    assert {each["stream"] for each in found["findings"]} == {0}


def test_only_changes_of_connections_are_sent(dashboard: Dashboard) -> None:
    client = dashboard("channel-error")
    whole = client.get(f"{SOURCE}/connections/changes", params={"closed": "true"}).json()
    assert whole["is_whole"]
    assert whole["closed"] == len(whole["connections"]) == 1
    again = client.get(f"{SOURCE}/connections/changes", params={"closed": "true", "after": whole["version"]}).json()
    assert not again["is_whole"]
    assert again["connections"] == again["counters"] == []
    assert client.get(f"{SOURCE}/connections/changes").json()["connections"] == []


def test_clients_of_connections_by_number(dashboard: Dashboard) -> None:
    client = dashboard("channel-error")
    found = client.get(f"{SOURCE}/connections/clients", params={"sessions": "0,7"}).json()
    assert found == {"clients": {"0": ["127.0.0.1", "guest"]}}
    assert client.get(f"{SOURCE}/connections/clients", params={"sessions": "x"}).status_code in (400, 422)
