"""A message that is edited and published again, to a real broker, and what comes of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from starlette.testclient import TestClient
from structlog.testing import capture_logs

from amqproxy.testing.local_broker import LocalBroker
from tests.dashboard.conftest import Dashboard

pytestmark = [pytest.mark.once, pytest.mark.slow]


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


def path_of(client: TestClient) -> str:
    """The path of the first message that was published."""
    rows = client.get("/api/v1/sources/0/messages").json()["rows"]
    return next(f"/api/v1/sources/0/messages/{row['seq']}/publish" for row in rows if row["type"] == "publish")


def outcome(client: TestClient, path: str, to: str, protocol: str = "0-9-1", **edit: Any) -> dict[str, Any]:
    """Publish a message again, and return the finished replay."""
    started = client.post(path, json={"to": to, "edit": edit, "protocol": protocol})
    assert started.status_code == 202, started.text
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        replays = client.get("/api/v1/captures/replays").json()["replays"]
        found: dict[str, Any] = next(each for each in replays if each["id"] == started.json()["id"])
        if found["state"] != "running":
            return found
        time.sleep(0.05)
    raise AssertionError("it does not end")


@pytest.mark.parametrize("capture", ["confirms", "brokerj9.2__jms-010-request-reply"])
def test_a_message_of_either_protocol_is_confirmed_or_returned(
    capture: str, dashboard: Dashboard, broker: LocalBroker
) -> None:
    client = dashboard(capture)
    path = path_of(client)
    shown = client.get(path).json()
    assert shown["kept"] == shown["size"]
    with capture_logs() as logs:
        returned = outcome(client, path, broker.url, fields={"exchange": "", "routing_key": "nowhere"})
    assert returned["state"] == "different"
    assert "NO_ROUTE" in returned["differences"][-1]["what"]
    assert [(each["action"], each["outcome"]) for each in logs if each["event"] == "dashboard action"] == [
        ("resend", "started"),
        ("resend", "different"),
    ]
    confirmed = outcome(
        client, path, broker.url, fields={"exchange": "amq.fanout"}, body="changed", headers={"by": "bob"}
    )
    assert [each["method"] for each in confirmed["differences"]] in ([], ["basic.return"])


def test_a_message_of_0_10_is_sent_as_one(dashboard: Dashboard, broker: LocalBroker, tmp_path: Path) -> None:
    client = dashboard("brokerj9.2__jms-010-request-reply")
    path = path_of(client)
    assert client.get(path).json()["protocol"] == "0-10"
    queue = "resent"
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.queue_declare(queue, exclusive=True)
        to = {"exchange": "", "routing_key": queue}
        found = outcome(client, path, broker.url, "0-10", fields=to, body="changed", headers={"by": "bob"})
        assert (found["state"], found["differences"]) == ("same", [])
        assert outcome(client, path, broker.url, "0-10", fields=to)["state"] == "same"
        [(_, properties, body), (_, as_it_was, other)] = [channel.basic_get(queue, auto_ack=True) for _ in range(2)]
        assert (properties.headers["by"], body) == ("bob", b"changed")
        assert as_it_was.message_id == properties.message_id
        assert (len(other), "by" in (as_it_was.headers or {})) == (client.get(path).json()["size"], False)
        nowhere = outcome(client, path, broker.url, "0-10", fields={"exchange": "", "routing_key": "nowhere"})
        assert nowhere["state"] == "different"
        assert nowhere["differences"][-1]["changes"][0]["after"] == "message.reject"
    plain = dashboard("confirms")
    refused = plain.post(path_of(plain), json={"to": broker.url, "protocol": "0-10"})
    assert (refused.status_code, "not of AMQP 0-10" in refused.json()["detail"]) == (409, True)


def test_what_cannot_be_sent_is_refused(dashboard: Dashboard) -> None:
    client = dashboard("confirms")
    path = path_of(client)
    for edit, reason in (
        ({"fields": {"key": "x"}}, "not a field"),
        ({"bdy": "x"}, "bdy"),
        ({"properties": {"prio": 1}}, "not a property"),
    ):
        answer = client.post(path, json={"to": "127.0.0.1:1", "edit": edit})
        assert answer.status_code == 400
        assert reason in answer.json()["detail"]
    assert client.post(path, json={"to": "http://a"}).status_code == 400
    assert client.get("/api/v1/sources/0/messages/9999/publish").status_code == 404


def test_a_broker_that_is_not_there_is_an_error(dashboard: Dashboard) -> None:
    client = dashboard("confirms")
    assert outcome(client, path_of(client), "amqp://guest:guest@127.0.0.1:1")["state"] == "failed"


def test_a_read_only_dashboard_sends_nothing(dashboard: Dashboard) -> None:
    client = dashboard("confirms", read_only=True)
    assert client.post(path_of(client), json={"to": "127.0.0.1:1"}).status_code == 403
