"""A broker that is started again, with real clients."""

import json
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest
import trio
from structlog.testing import capture_logs

from amqproxy.broker.broker import Broker
from amqproxy.broker.message import Message
from amqproxy.broker.queues.policies import make_policy
from amqproxy.broker.server import persistence
from amqproxy.broker.server.persistence import persisted
from amqproxy.broker.server.server import serve
from amqproxy.broker.storage import batch_writer
from amqproxy.broker.storage.store import NAME, Store

ROOT = Path(__file__).parents[3]
NOTHING = (None, None, None)
PERSISTENT = pika.BasicProperties(delivery_mode=2)


def connected(port: int) -> Any:
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))


async def with_broker(directory: Path, do: Any) -> Any:
    """Let a client do something with a broker that keeps what it has in `directory`."""
    broker = Broker()
    async with persisted(broker, directory), serve(broker) as port:
        return await trio.to_thread.run_sync(do, port)


def declare_and_publish(port: int, arguments: dict[str, Any]) -> None:
    with connected(port) as connection:
        channel = connection.channel()
        channel.exchange_declare("x", "topic", durable=True)
        channel.queue_declare("q", durable=True, arguments=arguments)
        channel.queue_bind("q", "x", "a.*")
        channel.confirm_delivery()
        for number in range(50):
            mode = 1 if number % 10 == 9 and not arguments else 2
            channel.basic_publish("x", "a.b", b"%d" % number, pika.BasicProperties(delivery_mode=mode))
        for _ in range(5):
            method, _, _ = channel.basic_get("q")
            channel.basic_ack(method.delivery_tag)
        for _ in range(2):
            channel.basic_get("q")


def get_all(port: int) -> list[tuple[bytes, bool]]:
    with connected(port) as connection:
        channel = connection.channel()
        assert channel.queue_declare("q", passive=True).method.message_count > 0
        channel.basic_publish("x", "a.new", b"new")
        got = []
        while (found := channel.basic_get("q", auto_ack=True))[0] is not None:
            method, _, body = found
            got.append((body, method.redelivered))
        return got


async def test_a_database_that_has_vanished_is_warned_of(tmp_path: Path) -> None:
    for is_gone in (False, True, False):
        if is_gone:
            (tmp_path / NAME).unlink()
        with capture_logs() as lines:
            async with persisted(Broker(), tmp_path):
                pass
        found = [line for line in lines if line["event"].startswith("the database is gone")]
        assert len(found) == is_gone
        for line in found:
            assert line["log_level"] == "warning"
            assert line["directory"] == str(tmp_path)
            assert "backup" in line["remedy"]


@pytest.mark.parametrize("type_", ["classic", "quorum"])
async def test_what_was_kept_is_found_again(tmp_path: Path, type_: str) -> None:
    arguments = {} if type_ == "classic" else {"x-queue-type": type_}
    await with_broker(tmp_path, partial(declare_and_publish, arguments=arguments))
    got = await with_broker(tmp_path, get_all)
    is_there = [number for number in range(5, 50) if arguments or number % 10 != 9]
    assert [body for body, _ in got] == [*(b"%d" % number for number in is_there), b"new"]
    if type_ == "classic":
        assert [body for body, redelivered in got if redelivered] == [b"5", b"6"]


def purge(port: int) -> None:
    with connected(port) as connection:
        connection.channel().queue_purge("q")


def depth(port: int) -> int:
    with connected(port) as connection:
        count: int = connection.channel().queue_declare("q", passive=True).method.message_count
        return count


async def test_what_was_purged_stays_away(tmp_path: Path) -> None:
    await with_broker(tmp_path, partial(declare_and_publish, arguments={}))
    assert await with_broker(tmp_path, depth) == 40
    await with_broker(tmp_path, purge)
    assert await with_broker(tmp_path, depth) == 0


def commit(port: int) -> None:
    with connected(port) as connection:
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        channel.tx_select()
        for number in range(10):
            channel.basic_publish("", "q", b"%d" % number, PERSISTENT)
        channel.tx_commit()


async def test_a_transaction_is_kept(tmp_path: Path) -> None:
    await with_broker(tmp_path, commit)
    assert await with_broker(tmp_path, depth) == 10


def declare_with_consumers(port: int) -> Any:
    """Leaves three messages out of a queue of five at most, and one consumer on a queue that goes with its last."""
    connection = connected(port)
    channel = connection.channel()
    for name, options in (
        ("dead", {}),
        ("unused", {"auto_delete": True}),
        ("used", {"auto_delete": True}),
        ("mine", {"exclusive": True}),
        ("five", {"arguments": {"x-dead-letter-exchange": "first"}}),
    ):
        channel.queue_declare(name, durable=True, **options)
    for name in ("first", "second"):
        channel.exchange_declare(name, "fanout", durable=True)
    channel.exchange_bind("second", "first")
    channel.queue_bind("dead", "second")
    channel.confirm_delivery()
    for number in range(5):
        channel.basic_publish("", "five", b"%d" % number, PERSISTENT)
    for _ in range(3):
        channel.basic_get("five")
    for number in range(5, 8):
        channel.basic_publish("", "five", b"%d" % number, PERSISTENT)
    channel.basic_consume("used", lambda *_: None)
    return connection


def what_is_there(port: int) -> dict[str, list[bytes] | None]:
    found: dict[str, list[bytes] | None] = {}
    with connected(port) as connection:
        for name in ("five", "dead", "unused", "used", "mine"):
            channel = connection.channel()
            try:
                channel.queue_declare(name, passive=True)
            except pika.exceptions.ChannelClosedByBroker:
                found[name] = None
                continue
            found[name] = [body for _, _, body in iter(partial(channel.basic_get, name, auto_ack=True), NOTHING)]
    return found


async def test_what_rabbitmq_keeps_after_a_kill(tmp_path: Path) -> None:
    """What was out goes back, a policy holds over it, and what is too much becomes dead letters, two exchanges on.

    A queue that goes with its last consumer stays, with the consumer or without one. RabbitMQ 3.10 does all that too.
    """
    for kill in (True, False):
        broker = Broker()
        disk = tmp_path / str(kill)
        async with persisted(broker, disk), serve(broker) as port:
            broker.vhosts["/"].set_policy(make_policy("p", "^five$", {"max-length": 5}, apply_to="queues"), 0.0)
            connection = await trio.to_thread.run_sync(declare_with_consumers, port)
            if kill:
                await trio.to_thread.run_sync(shutil.copytree, disk, tmp_path / "killed")
        with suppress(pika.exceptions.AMQPError):
            await trio.to_thread.run_sync(connection.close)
        found = await with_broker(tmp_path / "killed" if kill else disk, what_is_there)
        assert found["five"] == [b"3", b"4", b"5", b"6", b"7"]
        assert found["dead"] == [b"0", b"1", b"2"]
        assert (found["unused"], found["mine"]) == ([], None)
        assert found["used"] == ([] if kill else None)


def fill_a_stream(port: int) -> None:
    with connected(port) as connection:
        channel = connection.channel()
        channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
        channel.confirm_delivery()
        for number in range(10):
            channel.basic_publish("", "s", b"%d" % number)


def read_a_stream(port: int, offset: Any, count: int) -> list[tuple[int, bytes]]:
    """At least `count` entries, and those that come at once behind them."""
    with connected(port) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=100)
        arguments = {"x-stream-offset": offset}
        got = []
        for method, properties, body in channel.consume("s", arguments=arguments, inactivity_timeout=0.2):
            if method is None:
                if len(got) >= count:
                    break
                continue
            got.append((properties.headers["x-stream-offset"], body))
        return got


async def test_a_stream_goes_on_where_it_was(tmp_path: Path) -> None:
    await with_broker(tmp_path, fill_a_stream)
    await with_broker(tmp_path, fill_a_stream)
    all_of_it = [(place, b"%d" % (place % 10)) for place in range(20)]
    for offset, first in (("first", 0), (7, 7), ("next", 20), ("last", 19), ("1h", 0)):
        rest = all_of_it[first:]
        assert await with_broker(tmp_path, partial(read_a_stream, offset=offset, count=len(rest))) == rest


def hold(port: int) -> None:
    with connected(port) as connection:
        channel = connection.channel()
        channel.exchange_declare("x", "x-delayed-message", durable=True, arguments={"x-delayed-type": "direct"})
        channel.queue_declare("q", durable=True)
        channel.queue_bind("q", "x", "k")
        channel.confirm_delivery()
        for delay in (
            1_000_000,
            100,
            200,
        ):
            # persistent: on a slow machine the first are in the queue before the broker ends
            properties = pika.BasicProperties(headers={"x-delay": delay}, delivery_mode=2)
            channel.basic_publish("x", "k", b"%d" % delay, properties)


def get_two(port: int) -> list[bytes]:
    with connected(port) as connection:
        channel = connection.channel()
        end = time.monotonic() + 20
        while channel.queue_declare("q", passive=True).method.message_count < 2 and time.monotonic() < end:
            connection.process_data_events(0.02)
        return [channel.basic_get("q", auto_ack=True)[2] for _ in range(3)]


async def test_what_is_held_is_let_go_when_it_is_due(tmp_path: Path) -> None:
    await with_broker(tmp_path, hold)
    assert await with_broker(tmp_path, get_two) == [b"100", b"200", None]
    broker = Broker()
    async with persisted(broker, tmp_path):
        assert [message.body for _, _, message in broker.vhosts["/"].delayed] == [b"1000000"]


# --- the disk


async def test_a_disk_that_takes_nothing_is_an_alarm_until_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = []

    def small(*arguments: Any, **options: Any) -> Store:
        stores.append(Store(*arguments, **options, max_bytes=1, retry_after=0.01))
        return stores[0]

    monkeypatch.setattr(persistence, "Store", small)
    reported: dict[str, trio.Event] = {"alarm.set": trio.Event(), "alarm.cleared": trio.Event()}
    broker = Broker()
    broker.events.observers.append(lambda event: reported[event.name].set() if event.name in reported else None)
    async with persisted(broker, tmp_path) as recorder:
        broker.add_vhost("v").description = "x" * 100_000
        recorder.compare()
        with trio.fail_after(20):
            await reported["alarm.set"].wait()
            assert broker.alarms == {"disk"}
            stores[0].max_bytes = 100_000_000
            await reported["alarm.cleared"].wait()
        assert broker.alarms == set()


async def test_another_alarm_for_the_disk_stays(tmp_path: Path) -> None:
    broker = Broker(disk_free_limit=1000)
    async with persisted(broker, tmp_path) as recorder:
        broker.check_limits(0.0, disk_free=10)
        broker.add_vhost("v")
        is_written = trio.Event()
        recorder.journal.when_committed(is_written.set)
        with trio.fail_after(60):
            await is_written.wait()
        assert broker.alarms == {"disk"}


async def test_a_message_that_can_never_be_stored_costs_its_publisher_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is never confirmed; other publishers are, and what comes later is stored."""
    pack = batch_writer.pack

    def fails(message: Message) -> bytes:
        if message.body == b"bad":
            raise ValueError("on purpose")
        return pack(message)

    def publish(port: int) -> None:
        with connected(port) as connection:
            one = connected(port).channel()
            channel = connection.channel()
            channel.queue_declare("q", durable=True)
            for each in (one, channel):
                each.confirm_delivery()
            with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
                one.basic_publish("", "q", b"bad", PERSISTENT)
            assert closed.value.reply_code == 541
            for _ in range(3):
                channel.basic_publish("", "q", b"good", PERSISTENT)

    monkeypatch.setattr(batch_writer, "pack", fails)
    with capture_logs() as log:
        await with_broker(tmp_path, publish)
    assert [(each["event"], each["of"]) for each in log if each["log_level"] == "error"] == [
        ("cannot be stored", "queue q in /")
    ]

    def bodies(port: int) -> list[bytes]:
        with connected(port) as connection:
            channel = connection.channel()
            return [body for _, _, body in iter(partial(channel.basic_get, "q", auto_ack=True), NOTHING)]

    assert await with_broker(tmp_path, bodies) == 3 * [b"good"]


async def test_a_transaction_that_can_never_be_stored_is_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(message: Message) -> bytes:
        raise ValueError("on purpose")

    def commit_it(port: int) -> None:
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
            commit(port)
        assert closed.value.reply_code == 541

    monkeypatch.setattr(batch_writer, "pack", fails)
    await with_broker(tmp_path, commit_it)


async def test_a_damaged_message_is_passed_over_and_logged(tmp_path: Path) -> None:
    await with_broker(tmp_path, partial(declare_and_publish, arguments={}))
    with closing(sqlite3.connect(tmp_path / NAME)) as connection, connection:
        connection.execute("update entry set content = x'00' where id & 0xffff in (6, 9)")
    connection.close()
    with capture_logs() as log:
        got = await with_broker(tmp_path, get_all)
    is_there = [number for number in range(6, 50) if number % 10 != 9 and number != 8]
    assert [body for body, _ in got] == [*(b"%d" % number for number in is_there), b"new"]
    lines = [(each["event"], each.get("position", each.get("queue"))) for each in log if each["log_level"] == "error"]
    assert sorted(lines, key=str) == [
        ("messages lost", "q"),
        ("messages lost", "q"),
        ("stored message damaged", 6),
        ("stored message damaged", 9),
    ]


# --- by its command


def run(directory: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "amqproxy", "broker", "--listen", "127.0.0.1:0", "--log-format", "json"]
    return subprocess.Popen([*command, "--data", str(directory)], cwd=ROOT, stderr=subprocess.PIPE)


def test_the_command_keeps_what_it_has(tmp_path: Path) -> None:
    for do in (commit, depth):
        with run(tmp_path) as process:
            assert process.stderr is not None
            port = int(json.loads(process.stderr.readline())["address"].rpartition(":")[2])
            result = do(port)
            with run(tmp_path) as other:
                assert other.stderr is not None
                assert f"{tmp_path} is in use by another process" in other.stderr.read().decode()
            assert other.returncode not in (0, None)
            process.terminate()
            process.stderr.read()
        assert process.returncode == 0
    assert result == 10
