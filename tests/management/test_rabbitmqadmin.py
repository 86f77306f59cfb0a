"""RabbitMQ 3.10's rabbitmqadmin, as Debian has it, with our management API."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pika.exceptions import ConnectionClosedByBroker

from tests.cli.process import DEADLINE, connected, port_in, start, until
from tests.real.require import require

pytestmark = [pytest.mark.real, pytest.mark.once]


class Admin:
    """The program with the API at a port."""

    def __init__(self, port: int) -> None:
        self._command = [sys.executable, require("rabbitmqadmin", package="rabbitmq-server"), "-P", str(port)]

    def run(self, *arguments: str, user: str = "guest") -> str:
        """Return the output; a command that fails has its exit code and its complaint before it."""
        command = [*self._command, "-u", user, "-p", user, "-f", "tsv", "-q", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=False)
        return done.stdout if done.returncode == 0 else f"{done.returncode}: {done.stdout}{done.stderr}"

    def list(self, *arguments: str, user: str = "guest") -> list[list[str]]:
        """Return the rows of a list."""
        return [line.split("\t") for line in self.run("list", *arguments, user=user).splitlines()]


@pytest.fixture
def places() -> Iterator[tuple[Admin, int]]:
    """The program, and the AMQP port of the broker that it is for."""
    options = ("--listen", "127.0.0.1:0", "--management", "127.0.0.1:0", "--as", "3.10")
    with start("broker", *options) as process:
        try:
            admin = Admin(int(until(process, "management").split("address=")[1].strip().rstrip("/").rpartition(":")[2]))
            yield admin, port_in(until(process, "listening"))
        finally:
            process.terminate()
            process.communicate(timeout=DEADLINE)


def test_its_commands(places: tuple[Admin, int], tmp_path: Path) -> None:
    admin, port = places

    admin.run("declare", "vhost", "name=v")
    admin.run("declare", "user", "name=ann", "password=ann", "tags=management")
    admin.run("declare", "permission", "vhost=/", "user=ann", "configure=^o", "write=.*", "read=.*")
    assert ["ann", "management"] in admin.list("users", "name", "tags")
    assert admin.list("vhosts", "name") == [["/"], ["v"]]
    assert admin.list("vhosts", "name", user="ann") == [["/"]]
    assert ["/", "^o", ".*", "ann", ".*"] in admin.list("permissions")

    admin.run("declare", "queue", "name=orders", 'arguments={"x-max-length": 5}', user="ann")
    assert "Access refused" in admin.run("declare", "queue", "name=mine", user="ann")
    admin.run("declare", "exchange", "name=x", "type=topic")
    admin.run("declare", "binding", "source=x", "destination=orders", "routing_key=a.*")
    assert admin.list("bindings", "source", "destination", "routing_key") == [
        ["", "orders", "orders"],
        ["x", "orders", "a.*"],
    ]
    admin.run("publish", "exchange=x", "routing_key=a.b", "payload=hello")
    assert admin.list("queues", "name", "messages") == [["orders", "1"]]
    assert "hello" in admin.run("get", "queue=orders", "ackmode=ack_requeue_false")
    assert admin.list("queues", "name", "messages") == [["orders", "0"]]

    admin.run("declare", "policy", "name=p", "pattern=^o", 'definition={"max-length":3}', "apply-to=queues")
    assert admin.list("queues", "name", "policy") == [["orders", "p"]]
    with connected(port) as connection:
        connection.channel().basic_consume("orders", lambda *_: None, consumer_tag="tag")
        [[name]] = admin.list("connections", "name")
        assert admin.list("consumers", "consumer_tag", "queue.name") == [["tag", "orders"]]
        assert admin.list("channels", "consumer_count") == [["1"]]
        admin.run("close", "connection", f"name={name}")
        with pytest.raises(ConnectionClosedByBroker, match="Closed via management plugin"):
            connection.process_data_events(DEADLINE)

    file = tmp_path / "definitions.json"
    admin.run("export", str(file))
    assert [each["name"] for each in json.loads(file.read_text())["queues"]] == ["orders"]
    admin.run("delete", "exchange", "name=x")
    admin.run("delete", "queue", "name=orders")
    assert admin.list("queues", "name") == []
    admin.run("import", str(file))
    assert admin.list("queues", "name") == [["orders"]]
    assert ["x", "topic"] in admin.list("exchanges", "name", "type")
    admin.run("purge", "queue", "name=orders")
    for each in ("policy name=p", "user name=ann", "vhost name=v"):
        admin.run("delete", *each.split())
    assert admin.list("users", "name") == [["guest"]]
    assert admin.list("vhosts", "name") == [["/"]]
