"""A broker that is started again, with real clients; and one that is killed."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest
import trio

from amqproxy.broker import keeping
from amqproxy.broker.broker import Broker
from amqproxy.broker.keeping import kept
from amqproxy.broker.server import serve
from amqproxy.broker.store import Store

ROOT = Path(__file__).parents[2]
PERSISTENT = pika.BasicProperties(delivery_mode=2)


def connected(port: int) -> Any:
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))


async def with_broker(directory: Path, do: Any) -> Any:
    """Let a client do something with a broker that keeps what it has in `directory`."""
    broker = Broker()
    async with kept(broker, directory), serve(broker) as port:
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


# --- the disk


async def test_a_disk_that_takes_nothing_is_an_alarm_until_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = []

    def small(*arguments: Any, **options: Any) -> Store:
        stores.append(Store(*arguments, **options, max_octets=1, retry_after=0.01))
        return stores[0]

    monkeypatch.setattr(keeping, "Store", small)
    heard: dict[str, trio.Event] = {"alarm.set": trio.Event(), "alarm.cleared": trio.Event()}
    broker = Broker()
    broker.events.observers.append(lambda event: heard[event.name].set() if event.name in heard else None)
    async with kept(broker, tmp_path) as remembrance:
        broker.add_vhost("v").description = "x" * 100_000
        remembrance.compare()
        with trio.fail_after(20):
            await heard["alarm.set"].wait()
            assert broker.alarms == {"disk"}
            stores[0].max_octets = 100_000_000
            await heard["alarm.cleared"].wait()
        assert broker.alarms == set()


async def test_another_alarm_for_the_disk_stays(tmp_path: Path) -> None:
    broker = Broker(disk_free_limit=1000)
    async with kept(broker, tmp_path) as remembrance:
        broker.measure(0.0, disk_free=10)
        broker.add_vhost("v")
        is_written = trio.Event()
        remembrance.journal.when_committed(is_written.set)
        with trio.fail_after(60):
            await is_written.wait()
        assert broker.alarms == {"disk"}


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


# --- killed


async def serve_kept(directory: Path) -> None:
    broker = Broker()
    async with kept(broker, directory), serve(broker) as port:
        os.write(sys.stdout.fileno(), b"%d\n" % port)
        await trio.sleep_forever()


def publish(port: int, first: int, confirmed: list[int]) -> None:
    """Publish numbers, one more each time, until the broker is gone; note which were confirmed."""
    with suppress(pika.exceptions.AMQPError):
        channel = connected(port).channel()
        channel.queue_declare("q", durable=True)
        channel.confirm_delivery()
        for number in range(first, first + 1_000_000):
            channel.basic_publish("", "q", b"%d" % number, PERSISTENT)
            confirmed.append(number)


def consume(port: int, acked: list[int]) -> None:
    """Take and ack every message, until the broker is gone."""
    with suppress(pika.exceptions.AMQPError):
        channel = connected(port).channel()
        channel.queue_declare("q", durable=True)
        channel.basic_qos(prefetch_count=20)
        for method, _, body in channel.consume("q"):
            acked.append(int(body))
            channel.basic_ack(method.delivery_tag)


def crash(directory: Path, rounds: int) -> None:
    """Kill the broker under load: nothing that was confirmed is lost, but for what was acked, and the order holds."""
    confirmed: list[int] = []
    acked: list[int] = []
    for _ in range(rounds):
        command = [sys.executable, "-m", "tests.broker.test_keeping", str(directory)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            before = len(acked)
            # Whatever was published and not confirmed may be there: the next numbers are far above.
            first = max([*confirmed, *acked, 0]) // 100_000 * 100_000 + 100_000
            threads = [
                threading.Thread(target=publish, args=(port, first, confirmed)),
                threading.Thread(target=consume, args=(port, acked)),
            ]
            for thread in threads:
                thread.start()
            time.sleep(random.uniform(0.1, 0.5))
            process.kill()
            for thread in threads:
                thread.join()
            assert process.wait() == -signal.SIGKILL
        received = acked[before:]
        assert received == sorted(set(received))
    left = trio.run(with_broker, directory, get_rest)
    assert left == sorted(set(left))
    assert set(confirmed) <= set(left) | set(acked)
    # Acks that were on their way when the broker was killed, and no others, may be for nothing.
    assert len(set(left) & set(acked)) <= 1000


def get_rest(port: int) -> list[int]:
    with connected(port) as connection:
        channel = connection.channel()
        got = []
        while (found := channel.basic_get("q", auto_ack=True))[0] is not None:
            got.append(int(found[2]))
        return got


def test_a_few_kills(tmp_path: Path) -> None:
    crash(tmp_path, 3)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_many_kills(tmp_path: Path) -> None:
    crash(tmp_path, 60)


if __name__ == "__main__":
    trio.run(serve_kept, Path(sys.argv[1]))
