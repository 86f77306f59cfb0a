"""The broker that a config describes."""

import json
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pika
import pytest
import trio

from amqproxy.amqp091.errors import PreconditionFailed
from amqproxy.amqp091.wire import Table
from amqproxy.broker.server.clock import current_time
from amqproxy.broker.server.from_config import configured
from amqproxy.broker.server.server import BrokerServer
from amqproxy.broker.storage.data_directory import StoreError
from amqproxy.configuration.config import BrokerConfig, BrokerLimits, ConfigError


async def listening(server: BrokerServer) -> int:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    server.listen(listener)
    return listener.socket.getsockname()[1]  # type: ignore[no-any-return]


def declare(port: int, **options: Any) -> int:
    """How many messages wait in the queue q, which then has one more."""
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port)) as connection:
        channel = connection.channel()
        count = channel.queue_declare("q", **options).method.message_count
        channel.confirm_delivery()
        channel.basic_publish("", "q", b"x", pika.BasicProperties(delivery_mode=2))
        return count  # type: ignore[no-any-return]


async def test_what_is_durable_is_kept(tmp_path: Path) -> None:
    for count in range(3):
        async with configured(BrokerConfig(data=str(tmp_path / "data"))) as server:
            port = await listening(server)
            assert await trio.to_thread.run_sync(partial(declare, port, durable=True)) == count


async def test_data_that_cannot_be_had(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError):
        async with configured(BrokerConfig(data=str(tmp_path / "file"))):
            pass


async def test_definitions_are_there_from_the_start_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps({"queues": [{"name": "q", "vhost": "/", "durable": True, "arguments": {}}]}))
    data = str(tmp_path / "data")
    for settings in (
        BrokerConfig(definitions=str(file)),
        BrokerConfig(definitions=str(file), data=data),
        BrokerConfig(data=data),
    ):
        async with configured(settings) as server:
            assert list(server.broker.vhosts["/"].queues) == ["q"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "cannot be read: No such file"),
        ("[]", "not an object"),
        ("{", "Expecting"),
        ('{"queues": [{}]}', r"queues\[0\]: 'vhost' is missing"),
    ],
)
async def test_definitions_that_are_none(tmp_path: Path, text: str | None, reason: str) -> None:
    file = tmp_path / "definitions.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=f"definitions.json: {reason}"):
        async with configured(BrokerConfig(definitions=str(file))):
            pass


async def test_limits(tmp_path: Path) -> None:
    limits = BrokerLimits(memory=5, disk_free=6, channel_max=7, frame_max=8192, heartbeat=9, message_size=10)
    async with configured(BrokerConfig(limits=limits)) as server:
        broker = server.broker
        assert (broker.memory_limit, broker.disk_free_limit, broker.channel_max) == (5, 6, 7)
        assert (broker.frame_max, broker.heartbeat, broker.max_message_size) == (8192, 9, 10)


@pytest.mark.parametrize(
    ("limits", "reason"),
    [(BrokerLimits(memory=1), "low on memory"), (BrokerLimits(disk_free=10**18), "low on disk")],
)
async def test_a_publisher_is_sent_what_is_short(tmp_path: Path, limits: BrokerLimits, reason: str) -> None:
    reasons: list[str] = []

    def publish(port: int) -> pika.BlockingConnection:
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
        connection.add_on_connection_blocked_callback(lambda connection, blocked: reasons.append(blocked.method.reason))
        connection.channel().basic_publish("", "nowhere", b"x")
        while not reasons:
            connection.process_data_events(1.0)
        return connection

    async with configured(BrokerConfig(data=str(tmp_path), limits=limits)) as server:
        broker = server.broker
        port = await listening(server)
        with trio.fail_after(20):
            while not broker.alarms:  # noqa: ASYNC110
                await trio.sleep(0.01)
            connection = await trio.to_thread.run_sync(publish, port)
            assert reasons == [reason]
            broker.memory_limit = broker.disk_free_limit = None
            for resource in list(broker.alarms):
                broker.set_alarm(resource, False, current_time())
            await trio.to_thread.run_sync(connection.close)


async def test_without_data_no_disk_is_looked_at() -> None:
    async with configured(BrokerConfig(limits=BrokerLimits(disk_free=10**18))) as server:
        await trio.testing.wait_all_tasks_blocked()
        assert not server.broker.alarms


@pytest.mark.parametrize("type_", ["x-delayed-message", "x-consistent-hash"])
async def test_exchange_types_of_plugins_that_are_not_listed_are_unknown(type_: str) -> None:
    for plugins in ((), BrokerConfig().plugins):
        async with configured(BrokerConfig(plugins=plugins)) as server:
            vhost = server.broker.add_vhost("v")
            arguments = Table({"x-delayed-type": "direct"})
            with (
                nullcontext()
                if plugins
                else pytest.raises(PreconditionFailed, match=f"unknown exchange type '{type_}'")
            ):
                vhost.declare_exchange(
                    "x", type_, durable=False, auto_delete=False, internal=False, arguments=arguments
                )
