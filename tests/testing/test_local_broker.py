"""The broker that a test has for itself."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pika
import pika.exceptions
import psutil
import pytest
import trio

from amqproxy.testing import LocalBroker, LocalProxy, local_broker


def connected(broker: LocalBroker) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.URLParameters(broker.url))


def queue_names(broker: LocalBroker) -> list[str]:
    return broker.do(lambda model, now: list(model.vhosts["/"].queues))


def test_a_client_finds_it() -> None:
    with LocalBroker() as broker:
        with connected(broker) as connection:
            connection.channel().queue_declare("q")
        assert queue_names(broker) == ["q"]
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((broker.host, broker.port))
    with pytest.raises(RuntimeError, match="is not running"):
        broker.block()


def test_a_restart_keeps_what_is_durable(broker: LocalBroker) -> None:
    with connected(broker) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("durable", durable=True)
        channel.queue_declare("transient")
        for delivery_mode in (1, 2):
            channel.basic_publish(
                "", "durable", b"%d" % delivery_mode, pika.BasicProperties(delivery_mode=delivery_mode)
            )
    port = broker.port
    broker.restart()
    assert broker.port == port
    assert queue_names(broker) == ["durable"]
    with connected(broker) as again:
        channel = again.channel()
        assert [channel.basic_get("durable")[2] for _ in range(2)] == [b"2", None]


def test_a_restart_closes_connections_with_320(broker: LocalBroker) -> None:
    connection = connected(broker)
    broker.restart()
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        connection.process_data_events(time_limit=5)
    assert closed.value.reply_code == 320


def test_it_may_be_restarted_again_and_again(broker: LocalBroker) -> None:
    for _ in range(3):
        broker.restart()
        with connected(broker):
            pass


def test_publishers_are_blocked(broker: LocalBroker) -> None:
    with connected(broker) as connection:
        happened: list[str] = []
        connection.add_on_connection_blocked_callback(lambda *_: happened.append("blocked"))
        connection.add_on_connection_unblocked_callback(lambda *_: happened.append("unblocked"))
        channel = connection.channel()
        channel.queue_declare("q")
        with broker.block():
            channel.basic_publish("", "q", b"hello")
            connection.process_data_events(time_limit=5)
            assert happened == ["blocked"]
        connection.process_data_events(time_limit=5)
        assert happened == ["blocked", "unblocked"]
        broker.block()
        assert broker.do(lambda model, now: model.alarms) == {"memory"}
        broker.unblock()
        assert broker.do(lambda model, now: model.alarms) == set()


def test_where_there_is_no_room_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(local_broker, "ROOM", 1 << 62)
    with LocalBroker() as broker:
        assert len(list(tmp_path.iterdir())) == 1
        broker.restart()
    assert list(tmp_path.iterdir()) == []


async def test_it_may_be_used_in_trio(broker: LocalBroker) -> None:
    assert broker.do(lambda model, now: len(model.connections)) == 0
    broker.restart()
    async with await trio.open_tcp_stream(broker.host, broker.port):
        pass


def left_behind() -> dict[str, Any]:
    """What this process has open. trio keeps idle threads for a while, which all its loops share."""
    process = psutil.Process()
    return {
        "threads": sorted(each.name for each in threading.enumerate() if not each.name.startswith("Trio")),
        "sockets": sorted(str(each.laddr) for each in process.net_connections("all")),
        "files": sorted(each.path for each in process.open_files()),
        "descriptors": process.num_fds(),
    }


def use() -> None:
    with LocalBroker() as broker, LocalProxy(broker.address) as proxy:
        client = socket.create_connection((proxy.host, proxy.port))
        client.sendall(b"AMQP\0\0\x09\1")
        assert client.recv(1)
        client.close()


@pytest.mark.parametrize("times", [100, pytest.param(500, marks=pytest.mark.soak)])
def test_nothing_is_left_behind(times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    directories = []

    class Noted(TemporaryDirectory):  # type: ignore[type-arg]
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            directories.append(Path(self.name))

    monkeypatch.setattr(local_broker, "TemporaryDirectory", Noted)
    use()
    before, idle = left_behind(), threading.active_count()
    for _ in range(times):
        use()
    assert left_behind() == before
    assert threading.active_count() <= idle + 1
    assert len(directories) == times + 1
    assert not any(each.exists() for each in directories)
