"""Clients and messages switch from RabbitMQ 3.10 to 4.3 and back, while parties are killed: none is lost."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pika
import pika.exceptions
import pytest

from amqproxy.proxy.logins.password_hash import hash_password
from tests.docs.page_runner import BLOCK
from tests.docs.pages import ROOT
from tests.real.blue_green import (
    PREFETCH,
    WINDOW,
    BlueGreen,
    Client,
    Consumer,
    Publisher,
    declare,
    depth,
    finished,
    preload,
)
from tests.real.own import OwnBroker
from tests.real.poll import until
from tests.real.proxy import Program, command
from tests.real.rabbitmq import RabbitMQ, running
from tests.real.rabbitmq_installation import installation

pytestmark = [
    pytest.mark.real,
    pytest.mark.once,
    # pika leaves sockets open where a connection ends in its handshake
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def blue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    """A node of its own: green may not take the definitions that other tests leave."""
    with running(tmp_path_factory.mktemp("rabbitmq"), installation("")) as node:
        yield node


@pytest.fixture(scope="module")
def green(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    with running(tmp_path_factory.mktemp("rabbitmq"), installation("4.3")) as node:
        yield node


@pytest.fixture
def place(tmp_path: Path, blue: RabbitMQ, green: RabbitMQ, monkeypatch: pytest.MonkeyPatch) -> Iterator[BlueGreen]:
    monkeypatch.setenv("SWITCH_PASSWORD", "guest")
    found = BlueGreen(tmp_path, blue.port, green.port)
    yield found
    found.kill()


def has_moved(place: BlueGreen, count: int) -> bool:
    """Whether more messages than `count` have moved, or all."""
    switch = place.switch()
    return switch["moved"] > count or switch["state"] == "green"


def test_a_switch_and_its_way_back_with_kills(place: BlueGreen, green: RabbitMQ) -> None:
    queues = [f"switch.{number}" for number in range(4)]
    count, kills = 1500, 0
    declare(place, green.port, queues)
    preload(place, place.brokers["blue"], queues, count)
    publishers = [Publisher(place, queue, count, 0.05) for queue in queues]
    consumers = [Consumer(place, queue, 0.02) for queue in queues]
    clients: list[Client] = [*publishers, *consumers]
    try:
        for each in clients:
            each.start()
        until(lambda: place.connected() == {"blue": 8, "green": 0}, "all clients to be at blue")
        until(lambda: all(each.seen for each in consumers), "all consumers to have begun")
        place.ask("switches-begin", source="blue", target="green", strict=True, rate=1000, queues=[])
        until(lambda: has_moved(place, 100), "the move to have begun")
        for each in place.movers():
            each.kill()
            kills += 1
        until(lambda: has_moved(place, 2000), "the move to go on")
        place.kill()
        kills += 1
        place.start()
        place.until("green")
        until(lambda: place.connected() == {"blue": 0, "green": 8}, "all clients to be at green")
        assert all(each.connections > 1 for each in clients)
        assert any(each.codes[320] for each in clients)  # pika reports another fault to one that acks meanwhile
        assert [depth(place, place.brokers["blue"], queue) for queue in queues] == [0] * 4
        for each in consumers:
            each.pause = 0.0
        reached = [each.next for each in publishers]
        until(
            lambda: all(each.next > before + 3 for each, before in zip(publishers, reached, strict=True)), "publishes"
        )
        place.ask("switches-back", switch="blue-green")
        place.until("blue")
        until(lambda: place.connected() == {"blue": 8, "green": 0}, "all clients to be at blue again")
        for each in publishers:
            each.is_over.set()
        until(lambda: all(p.next <= len(c.seen) for p, c in zip(publishers, consumers, strict=True)), "all deliveries")
    finally:
        finished(clients, place)
    for publisher, consumer in zip(publishers, consumers, strict=True):
        missing = set(range(publisher.next)) - consumer.known
        assert missing == set()
        assert consumer.seen == sorted(consumer.seen)
    repeats = sum(each.repeats for each in consumers)
    cuts = kills + 2
    assert repeats <= kills * WINDOW + cuts * len(queues) * (PREFETCH + 1)


def commands_of(page: str) -> list[str]:
    """The commands of a page's consoles."""
    blocks = [block["text"] for block in BLOCK.finditer(page) if block["kind"] == "console"]
    return [line.removeprefix("$ ") for text in blocks for line in text.splitlines()]


def test_the_how_to(tmp_path: Path, blue: RabbitMQ, green: RabbitMQ, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs/howto/switch-brokers.md").read_text()
    [config] = [block["text"] for block in BLOCK.finditer(page) if block["kind"] == "toml"]
    nodes = {"blue": blue, "green": green}
    for name, node in nodes.items():
        config = config.replace(f"{name}.internal:5672", f"127.0.0.1:{node.port}")
    config = config.replace('"mover"', '"guest"').replace("/var/lib/amqproxy", str(tmp_path))
    config = config.replace("/run/amqproxy", str(tmp_path))
    file = tmp_path / "amqproxy.toml"
    file.write_text(f'listen = [{{ address = "127.0.0.1:0" }}]\n{config}')
    monkeypatch.setenv("MOVER_PASSWORD", "guest")
    monkeypatch.setenv("AMQPROXY_CONTROL", str(tmp_path / "control.sock"))
    program = Program(tmp_path / "proxy.log", *command(), "run", "--config", str(file))
    outputs: dict[str, str] = {}
    try:
        with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", blue.port)) as connection:
            channel = connection.channel()
            channel.queue_declare("how.to", durable=True)
            for number in range(300):
                channel.basic_publish("", "how.to", b"%d" % number, pika.BasicProperties(delivery_mode=2))
        for line in commands_of(page):
            words = line.split()
            if words[0] == "rabbitmqctl":
                nodes[words[2]].ctl(*words[3:-1], str(tmp_path / words[-1]))
            elif words[0] == "amqproxy" and words[1] == "control":
                if words[2] in ("switches-queues", "switches-forget"):
                    until(lambda: "moving" not in run(tmp_path, "control", "switches").stdout, "the move to end")
                outputs[words[2]] = outputs.get(words[2], "") + run(tmp_path, *words[1:]).stdout
    finally:
        program.kill()
    compared = next(line for line in outputs["switches-compare"].splitlines() if "how.to" in line)
    assert compared.split() == ["/", "how.to", "0", "0", "300", "0"]
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", blue.port)) as connection:
        channel = connection.channel()
        bodies = [channel.basic_get("how.to", auto_ack=True)[2] for _ in range(300)]
        channel.queue_delete("how.to")
    assert bodies == [b"%d" % number for number in range(300)]


def run(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*command(), *words], cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture
def own_pair(tmp_path: Path) -> Iterator[list[OwnBroker]]:
    """Two of our brokers, with a second virtual host."""
    everything = {"user": "guest", "configure": ".*", "write": ".*", "read": ".*"}
    definitions = {
        "users": [{"name": "guest", "password": "guest", "tags": "administrator"}],
        "vhosts": [{"name": "/"}, {"name": "shop"}],
        "permissions": [everything | {"vhost": vhost} for vhost in ("/", "shop")],
        "queues": [{"name": "q", "vhost": vhost, "durable": True} for vhost in ("/", "shop")],
    }
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps(definitions))
    found = []
    for name in ("blue", "green"):
        (tmp_path / name).mkdir()
        found.append(OwnBroker(tmp_path / name, "--definitions", str(file)))
    yield found
    for each in found:
        each.kill()


def test_one_virtual_host_switches(tmp_path: Path, own_pair: list[OwnBroker], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCH_PASSWORD", "guest")
    users = tmp_path / "users.toml"
    users.write_text(f"[users.guest]\npassword = '{hash_password('guest')}'\n")
    place = BlueGreen(
        tmp_path,
        *(each.port for each in own_pair),
        listen=[{"login": "checked"}],
        logins={"checked": {"users_file": str(users)}},
    )
    try:
        clients = {vhost: place.client(virtual_host=vhost) for vhost in ("/", "shop")}
        for client in clients.values():
            client.channel().basic_publish("", "q", b"waits")
            client.process_data_events(0.1)
        assert place.connected() == {"blue": 2, "green": 0}
        place.ask(
            "switches-begin", source="blue", target="green", vhost="shop", queues=[{"vhost": "shop", "name": "q"}]
        )
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="320"):
            clients["shop"].process_data_events(30)
        place.until("green")
        with place.client(virtual_host="shop") as moved:
            assert place.connected() == {"blue": 1, "green": 1}
            assert moved.channel().basic_get("q", auto_ack=True)[2] == b"waits"
        stayed = clients["/"].channel()
        assert stayed.basic_get("q", auto_ack=True)[2] == b"waits"
        clients["/"].close()
    finally:
        place.kill()
