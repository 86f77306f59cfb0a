"""The management API of the broker in a proxy's own process."""

from __future__ import annotations

from urllib.parse import quote

import pika
import pika.exceptions
import pytest

from tests.cli.process import port_in, start, until
from tests.management.api import Api

PATIENCE = 120.0


def test_it_shows_and_closes_clients_of_the_proxy() -> None:
    options = ("--listen", "127.0.0.1:0", "--upstream", "broker", "--management", "127.0.0.1:0")
    with start("run", *options) as process:
        port = int(until(process, "management").split("address=")[1].strip().rstrip("/").rpartition(":")[2])
        api = Api(port, port_in(until(process, "listening")))
        clients = [
            pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", api.amqp_port, heartbeat=0))
            for _ in range(3)
        ]
        clients.pop(0).close()  # the proxy and the broker number their connections apart
        clients[0].channel().queue_declare("q")
        assert [each["name"] for each in api.get("queues")] == ["q"]
        names = [each["name"] for each in api.get("connections")]
        assert names == ["<amqproxy@localhost.2>", "<amqproxy@localhost.3>"]
        closed = api.ask("DELETE", f"connections/{quote(names[1], safe='')}", headers={"X-Reason": "enough"})
        assert closed.status == 204
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="CONNECTION_FORCED - enough"):
            clients[1].process_data_events(time_limit=60)
        clients[0].channel()
        assert [each["name"] for each in api.get("connections")] == names[:1]
        clients[0].close()
        process.terminate()
        process.communicate(timeout=PATIENCE)


def test_it_needs_the_integrated_broker() -> None:
    with start("run", "--listen", "127.0.0.1:0", "--upstream", "127.0.0.1:1", "--management") as process:
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode != 0
    assert "--management: only the integrated broker has this API" in errors
