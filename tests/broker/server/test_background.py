"""The broker in a thread of its own."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pika
import pytest

from amqproxy.broker import Broker, serve_in_thread


def started() -> set[threading.Thread]:
    """Threads of this process but trio's, which end when they have been idle for a while."""
    return {each for each in threading.enumerate() if not each.name.startswith("Trio")}


def test_a_client_finds_it() -> None:
    threads = started()
    with serve_in_thread() as background, pika.BlockingConnection(pika.URLParameters(background.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        channel.basic_publish("", "q", b"hello")
        assert channel.basic_get("q")[2] == b"hello"
        assert background.do(lambda broker, now: list(broker.vhosts["/"].queues)) == ["q"]
    assert started() <= threads  # others may have ended meanwhile
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", background.port))


def test_it_takes_a_broker_that_is_there_already() -> None:
    broker = Broker(heartbeat=7)
    with serve_in_thread(broker) as background:
        assert background.do(lambda served, now: served is broker and now > 1_700_000_000)


def test_what_is_done_may_fail() -> None:
    with serve_in_thread() as background:
        with pytest.raises(ZeroDivisionError):
            background.do(lambda broker, now: 1 // 0)
        assert background.do(lambda broker, now: 5) == 5


async def test_it_may_be_used_in_trio() -> None:
    with serve_in_thread() as background:
        assert background.do(lambda broker, now: len(broker.connections)) == 0


def test_an_address_that_cannot_be_had() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(OSError, match="in use"),
        serve_in_thread(port=taken.getsockname()[1]),
    ):
        pass


def test_several_at_once() -> None:
    with serve_in_thread() as one, serve_in_thread() as other, ThreadPoolExecutor(2) as pool:
        assert one.port != other.port
        assert list(pool.map(lambda each: each.do(lambda broker, now: len(broker.connections)), (one, other))) == [0, 0]


def test_ipv6_has_brackets() -> None:
    with serve_in_thread(host="::1") as background:
        assert background.url == f"amqp://guest:guest@[::1]:{background.port}/%2F"
