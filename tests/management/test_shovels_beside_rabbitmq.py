"""Shovels of the integrated broker beside those of RabbitMQ's plugin: states, messages, refusals and ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pika
import pytest

from tests.management.api import Answer, Api, definitions
from tests.management.own_api import own
from tests.real.poll import until
from tests.real.ports import free_port
from tests.real.rabbitmq import running
from tests.real.rabbitmq_installation import installation

pytestmark = [pytest.mark.real, pytest.mark.once]

PLUGINS = ["rabbitmq_management", "rabbitmq_shovel", "rabbitmq_shovel_management"]


class Shovelling(NamedTuple):
    """RabbitMQ's API and ours, of one version."""

    theirs: Api
    ours: Api
    minor: str

    @property
    def both(self) -> tuple[Api, Api]:
        return self.theirs, self.ours


@pytest.fixture(scope="module", params=["3.10", "4.3"])
def shovelling(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shovelling]:
    minor, port = request.param, free_port()
    settings = {"management.tcp.port": port, "management.tcp.ip": "127.0.0.1", "listeners.ssl": "none"}
    with ExitStack() as stack:
        directory: Path = tmp_path_factory.mktemp("theirs")
        node = stack.enter_context(running(directory, installation(minor), settings, PLUGINS))
        theirs = Api(port, node.port)
        assert theirs.ask("POST", "definitions", definitions(node.profile.version)).status == 204
        monkeypatch = stack.enter_context(pytest.MonkeyPatch.context())
        yield Shovelling(theirs, stack.enter_context(own(tmp_path_factory.mktemp("ours"), minor, monkeypatch)), minor)


def url(api: Api) -> str:
    return f"amqp://guest:guest@127.0.0.1:{api.amqp_port}"


def put(api: Api, name: str, user: str = "guest", vhost: str = "%2F", **keys: Any) -> Answer:
    """Set a shovel whose keys have underscores here; `HERE` in a value is the broker's URL."""
    usual = {"src_uri": "amqp://", "src_queue": f"{name}.a", "dest_uri": "HERE", "dest_queue": f"{name}.b"}
    value = {key.replace("_", "-"): each for key, each in (usual | keys).items() if each is not None}
    value = {key: url(api) if each == "HERE" else each for key, each in value.items()}
    return api.ask("PUT", f"parameters/shovel/{vhost}/{name}", {"value": value}, user=user)


def state(api: Api, name: str) -> dict[str, Any] | None:
    return next((each for each in api.get("shovels") if each["name"] == name), None)


def shown(api: Api, name: str, wanted: str = "running") -> dict[str, Any]:
    """The state of a shovel once it is in it, without what differs between two brokers."""

    def found() -> dict[str, Any] | None:
        row = state(api, name)
        return row if row is not None and row["state"] == wanted else None

    row = until(found, f"{name} to be {wanted}")
    assert row is not None
    assert row.pop("timestamp")[:3] == "202"
    del row["node"]
    return {key: str(each).replace(str(api.amqp_port), "PORT") for key, each in row.items()}


def passed(api: Api, queue: str, taken_from: str, properties: pika.BasicProperties) -> Any:
    """Publish a message, and return it as it arrives."""
    with pika.BlockingConnection(pika.URLParameters(url(api) + "/%2F")) as connection:
        channel = connection.channel()
        channel.basic_publish("", queue, b"body", properties)
        method, found, body = until(
            lambda: got if (got := channel.basic_get(taken_from, auto_ack=True))[0] is not None else None, "the message"
        )
        assert body == b"body"
        return method.exchange, method.routing_key, found


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("plain", {}),
        ("headers", {"dest_add_forward_headers": True, "dest_add_timestamp_header": True}),
        ("properties", {"dest_publish_properties": {"type": "new", "priority": 3}, "ack_mode": "on-publish"}),
        ("list", {"src_uri": ["amqp://127.0.0.1:1", "HERE"], "ack_mode": "no-ack"}),
        ("counted", {"src_delete_after": 20, "src_prefetch_count": 5}),
        ("local", {"src_protocol": "local", "dest_protocol": "local", "dest_uri": "amqp://"}),
    ],
)
def test_states_and_messages(name: str, keys: Mapping[str, Any], shovelling: Shovelling) -> None:
    if name == "local" and shovelling.minor == "3.10":
        pytest.skip("RabbitMQ 3.10 has no local shovels")
    found = []
    for api in shovelling.both:
        given = dict(keys)
        if name == "list":
            given["src_uri"] = ["amqp://127.0.0.1:1", url(api)]
        assert put(api, name, **given).status == 201
        row = shown(api, name)
        properties = pika.BasicProperties(headers={"n": 1}, type="old", delivery_mode=2, message_id="m")
        exchange, routing_key, arrived = passed(api, f"{name}.a", f"{name}.b", properties)
        headers = arrived.headers
        for header in ("x-shovelled-timestamp", "x-opt-shovelled-timestamp", "x-opt-shovelled-by"):
            if header in headers:
                headers[header] = type(headers[header]).__name__
        for entry in headers.get("x-shovelled", ()):
            entry["dest-uri"] = entry["dest-uri"].replace(str(api.amqp_port), "PORT")
            assert entry.pop("shovelled-by")
        if name == "local":
            routing_key = "b"  # RabbitMQ 4.3 leaves that of the source
        found.append((row, exchange, routing_key, vars(arrived)))
        assert api.ask("DELETE", f"parameters/shovel/%2F/{name}").status == 204
        until(lambda api=api: state(api, name) is None, "the shovel to be gone")
    assert found[0] == found[1]


def test_exchanges(shovelling: Shovelling) -> None:
    found = []
    for api in shovelling.both:
        ends = {"src_queue": None, "src_exchange": "amq.fanout", "dest_queue": None, "dest_exchange": "amq.topic"}
        assert put(api, "exchanges", **ends, dest_exchange_key="k").status == 201
        found.append(shown(api, "exchanges"))
        api.ask("DELETE", "parameters/shovel/%2F/exchanges")
    assert found[0] == found[1]


def test_what_cannot_connect(shovelling: Shovelling) -> None:
    found = []
    for api in shovelling.both:
        put(api, "lost", src_uri="amqp://u:secret@127.0.0.1:1", reconnect_delay=1)
        row = shown(api, "lost", "terminated" if shovelling.minor == "4.3" else "starting")
        if "reason" in row:
            row["reason"] = row["reason"].strip('"').partition(":")[0]  # ours has the cause behind it
        shovel = api.get("shovels/vhost/%2F/lost")
        assert "secret" not in str(shovel)
        found.append((row, sorted(shovel if isinstance(shovel, dict) else shovel[0])))
        api.ask("DELETE", "parameters/shovel/%2F/lost")
    assert found[0] == found[1]


def test_it_deletes_itself(shovelling: Shovelling) -> None:
    for api in shovelling.both:
        assert put(api, "empty", src_delete_after="queue-length").status == 201
        until(lambda api=api: api.ask("GET", "parameters/shovel/%2F/empty").status == 404, "the end")
        assert state(api, "empty") is None


def test_a_restart(shovelling: Shovelling) -> None:
    for api in shovelling.both:
        put(api, "again")
        shown(api, "again")
        assert api.ask("DELETE", "shovels/vhost/%2F/again/restart").status == 204
        shown(api, "again")
        assert api.ask("DELETE", "shovels/vhost/%2F/nope/restart").status == 404
        api.ask("DELETE", "parameters/shovel/%2F/again")


@pytest.mark.parametrize(
    "keys",
    [
        {"src_uri": "amqp:///other"},
        {"src_uri": "amqp:///other", "dest_uri": ["amqp:///none", "amqp://"]},
        {"src_uri": "amqp:///"},
        {"src_uri": "amqp://h:99999"},
        {"src_uri": "amqp://h/a/b"},
        {"ack_mode": "no-ack", "src_delete_after": 3},
        {"dest_publish_properties": {"typ": "x", "delivery_mode": "2"}},
        {"src_delete_after": 2.5},
        {"src_predeclared": 3},
    ],
)
def test_refusals(keys: Mapping[str, Any], shovelling: Shovelling) -> None:
    """Set shovels as a policymaker with permissions in one virtual host."""
    theirs, ours = (put(api, "refused", user="paul", **keys) for api in shovelling.both)
    assert theirs.status == 400
    assert (ours.status, ours.json) == (theirs.status, theirs.json)


def test_an_import_checks_no_rights(shovelling: Shovelling) -> None:
    for api in shovelling.both:
        api.ask("DELETE", "permissions/other/guest")
        value = {"src-uri": "amqp:///other", "src-queue": "i", "dest-uri": "amqp:///other", "dest-queue": "j"}
        parameter = {"vhost": "other", "component": "shovel", "name": "imported", "value": value}
        assert api.ask("POST", "definitions", {"parameters": [parameter]}).status == 204
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        api.ask("PUT", "permissions/other/guest", everything)
        shown(api, "imported")
        assert api.ask("DELETE", "parameters/shovel/other/imported").status == 204
