"""Clients that share upstream connections notice nothing of it, and of each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import (
    ChannelClosedByBroker,
    NackError,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
    UnroutableError,
)

from amqproxy.control import ControlClient
from amqproxy.pump.pumps import are_available
from tests.real.fleet import Fleet
from tests.real.own import OwnBroker
from tests.real.poll import until
from tests.real.proxy import Proxy

pytestmark = [pytest.mark.real, pytest.mark.once]


class Shared:
    """A proxy whose clients share connections to one broker."""

    def __init__(self, directory: Path, **pool: Any) -> None:
        (directory / "broker").mkdir()
        self.broker = OwnBroker(directory / "broker")
        self.fleet = Fleet(directory, self.broker.port, pool=pool)

    def pools(self) -> list[dict[str, Any]]:
        with ControlClient(self.fleet.socket) as control:
            return list(control.ask("pools")["pools"])

    def pins(self, reason: str) -> float:
        """Return how many clients have got a connection of their own for a reason."""
        with ControlClient(self.fleet.socket) as control:
            samples = control.ask("stats")["metrics"]
        return sum(
            each["value"]
            for each in samples
            if each["name"] == "amqproxy_pool_pins_total" and each["labels"]["reason"] == reason
        )

    def client(self, **options: Any) -> BlockingConnection:
        return self.fleet.client(**options)

    def direct(self) -> BlockingConnection:
        """Return a connection to the broker itself."""
        login = pika.PlainCredentials("guest", "guest")
        return BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.broker.port, credentials=login))

    def kill(self) -> None:
        self.fleet.kill()
        self.broker.kill()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    found = Shared(tmp_path_factory.mktemp("pool"))
    yield found
    found.kill()


def confirming(client: BlockingConnection) -> BlockingChannel:
    channel = client.channel()
    channel.confirm_delivery()
    return channel


def bodies(shared: Shared, queue: str) -> list[bytes]:
    with shared.direct() as client:
        channel = client.channel()
        found = []
        while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
            found.append(got[2] or b"")
        return found


def test_many_clients_share_one_connection(shared: Shared) -> None:
    with shared.direct() as client:
        client.channel().queue_declare("many")
    clients = [shared.client() for _ in range(20)]
    channels = [confirming(each) for each in clients]
    for place, channel in enumerate(channels):
        channel.basic_publish("", "many", f"message {place}".encode(), mandatory=True)
    (pool,) = shared.pools()
    assert (pool["connections"], pool["clients"], pool["channels"]) == (1, 20, 20)
    for each in clients:
        each.close()
    assert sorted(bodies(shared, "many")) == sorted(f"message {place}".encode() for place in range(20))
    until(lambda: shared.pools()[0]["channels"] == 0, "the channels to be closed")


def test_a_declaration_is_made_before_what_follows_it(shared: Shared) -> None:
    client = shared.client()
    channel = confirming(client)
    with pytest.raises(UnroutableError):
        channel.basic_publish("", "declared", b"first", mandatory=True)
    channel.queue_declare("declared", arguments={"x-max-length": 10})
    channel.basic_publish("", "declared", b"second", mandatory=True)
    channel.queue_declare("declared", arguments={"x-max-length": 10})
    client.close()
    assert bodies(shared, "declared") == [b"second"]


def a_missing_queue(channel: BlockingChannel) -> None:
    channel.queue_declare("missing", passive=True)


def another_argument(channel: BlockingChannel) -> None:
    channel.queue_declare("argued")
    channel.queue_declare("argued", arguments={"x-message-ttl": 1})


def a_missing_exchange(channel: BlockingChannel) -> None:
    channel.basic_publish("missing", "", b"", mandatory=True)


@pytest.mark.parametrize(
    ("do", "code"), [(a_missing_queue, 404), (another_argument, 406), (a_missing_exchange, 404)], ids=lambda each: each
)
def test_an_error_closes_the_channel_of_its_author_alone(
    shared: Shared, do: Callable[[BlockingChannel], None], code: int
) -> None:
    with shared.direct() as direct:
        direct.channel().queue_declare("beside")
    author, bystander = shared.client(), shared.client()
    other = confirming(bystander)
    with pytest.raises(ChannelClosedByBroker) as refused:
        do(confirming(author))
    assert refused.value.reply_code == code
    confirming(author).basic_publish("", "beside", b"", mandatory=True)
    other.basic_publish("", "beside", b"", mandatory=True)
    author.close()
    bystander.close()
    assert bodies(shared, "beside") == [b"", b""]


def test_what_cannot_be_shared_goes_on_with_a_connection_of_its_own(shared: Shared) -> None:
    before = shared.pins("gets")
    client = shared.client()
    channel = confirming(client)
    channel.queue_declare("pinned")
    for number in range(3):
        channel.basic_publish("", "pinned", b"%d" % number, mandatory=True)
    found = channel.basic_get("pinned", auto_ack=True)
    assert found[2] == b"0"
    for number in range(3, 6):  # its confirms are numbered on from those of the shared connection
        channel.basic_publish("", "pinned", b"%d" % number, mandatory=True)
    second = confirming(client)
    second.basic_publish("", "pinned", b"6", mandatory=True)
    client.close()
    assert bodies(shared, "pinned") == [b"%d" % number for number in range(1, 7)]
    assert shared.pins("gets") == before + 1


def test_a_large_message_is_sent_whole_on_a_connection_of_its_own(shared: Shared) -> None:
    client = shared.client()
    channel = confirming(client)
    channel.queue_declare("large")
    channel.basic_publish("", "large", b"small", mandatory=True)
    channel.basic_publish("", "large", b"x" * 500_000, mandatory=True)
    channel.basic_publish("", "large", b"small", mandatory=True)
    client.close()
    assert [len(each) for each in bodies(shared, "large")] == [5, 500_000, 5]


def test_an_exclusive_queue_ends_with_its_client(shared: Shared) -> None:
    client = shared.client()
    name = client.channel().queue_declare("", exclusive=True).method.queue
    with shared.direct() as other, pytest.raises(ChannelClosedByBroker) as refused:
        other.channel().queue_declare(name, passive=True)
    assert refused.value.reply_code == 405
    client.close()
    with shared.direct() as other, pytest.raises(ChannelClosedByBroker) as refused:
        other.channel().queue_declare(name, passive=True)
    assert refused.value.reply_code == 404


def test_a_wrong_password_opens_no_pool(shared: Shared) -> None:
    shared.client().close()
    for _ in range(3):
        with pytest.raises(ProbableAuthenticationError):
            shared.client(password="wrong")
    assert [each["user"] for each in shared.pools()] == ["guest"]


def test_transactions_are_those_of_the_broker(shared: Shared) -> None:
    client = shared.client()
    channel = client.channel()
    channel.queue_declare("transacted")
    channel.tx_select()
    channel.basic_publish("", "transacted", b"lost")
    channel.tx_rollback()
    channel.basic_publish("", "transacted", b"kept")
    channel.tx_commit()
    client.close()
    assert bodies(shared, "transacted") == [b"kept"]


def test_a_nack_of_the_broker_reaches_its_publisher(shared: Shared) -> None:
    client = shared.client()
    channel = confirming(client)
    channel.queue_declare("full", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.basic_publish("", "full", b"", mandatory=True)
    with pytest.raises(NackError):
        channel.basic_publish("", "full", b"", mandatory=True)
    client.close()


@pytest.mark.skipif(not are_available(), reason="a plain run has no pump: it is compiled")
def test_a_pinned_client_is_relayed_by_a_pump(tmp_path: Path) -> None:
    (tmp_path / "broker").mkdir()
    broker = OwnBroker(tmp_path / "broker")
    path = str(tmp_path / "control.sock")
    proxy = Proxy(tmp_path, broker.port, threads=1, upstream={"pool": {}}, control={"path": path})
    try:
        with BlockingConnection(pika.ConnectionParameters("127.0.0.1", proxy.port)) as client:
            channel = client.channel()
            channel.queue_declare("pumped")
            channel.basic_consume("pumped", lambda *_: None, auto_ack=True)

            def owner() -> str:
                channel.basic_publish("", "pumped", b"")
                client.process_data_events(0.01)
                with ControlClient(path) as control:
                    return str(control.ask("connections")["connections"][0]["relayed_by"])

            until(lambda: owner() == "pump", "a pump to take the connection")
    finally:
        proxy.kill()
        broker.kill()


def test_clients_are_told_when_the_broker_is_killed(tmp_path: Path) -> None:
    shared = Shared(tmp_path)
    try:
        clients = [shared.client() for _ in range(5)]
        for each in clients:
            each.channel()
        shared.broker.kill()
        for each in clients:
            with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as told:
                until(partial(each.process_data_events, 0.05), "the client to be told")
            assert told.value.reply_code == 320
    finally:
        shared.kill()


def test_a_full_pool_says_so(tmp_path: Path) -> None:
    shared = Shared(tmp_path, clients_per_upstream=2, upstreams=1, wait=0.2)
    try:
        clients = [shared.client() for _ in range(2)]
        with pytest.raises(ProbableAccessDeniedError, match=r"\(530\) 'NOT_ALLOWED - pool exhausted"):
            shared.client()
        clients[0].close()
        shared.client().close()
        clients[1].close()
    finally:
        shared.kill()
