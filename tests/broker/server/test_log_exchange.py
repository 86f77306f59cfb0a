"""What is logged is published too."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from io import StringIO

import pytest
import structlog

from amqproxy.amqp091.methods import BasicGet
from amqproxy.broker.broker import Broker
from amqproxy.broker.server.from_config import configured
from amqproxy.broker.server.log_exchange import log_published
from amqproxy.configuration.config import BrokerConfig as Settings
from amqproxy.configuration.config import LogConfig
from amqproxy.process import log
from tests.broker.client import Client, connected


@pytest.fixture(autouse=True)
def written() -> Iterator[StringIO]:
    """The log as the command has it, but where it is written."""
    log.start(LogConfig())
    file = StringIO()
    structlog.configure(logger_factory=structlog.WriteLoggerFactory(file=file))
    yield file
    structlog.reset_defaults()


def listening(broker: Broker, *levels: str) -> Client:
    client = connected(broker)
    client.declare("log")
    for level in levels:
        client.bind("log", "amq.rabbitmq.log", level)
    return client


async def test_by_its_level(written: StringIO) -> None:
    broker = Broker(log_exchange=True)
    client = listening(broker, "warning", "error")
    with log_published(broker):
        structlog.get_logger().info("listening")
        structlog.get_logger().warning("connection refused", limit=5)
        structlog.get_logger().debug("below the level")
    structlog.get_logger().error("after it")
    (message,) = broker.vhosts["/"].queues["log"]
    assert message.body.endswith(b"[warning  ] connection refused limit=5")
    assert (message.exchange, message.routing_key) == ("amq.rabbitmq.log", "warning")
    assert message.properties.content_type == "text/plain"
    assert client.answers(BasicGet(queue="log", no_ack=True)) == "basic.get-ok"
    assert written.getvalue().count("\n") == 3  # it is written all the same


def test_where_structlog_is_not_set_up_it_stays_so(capsys: pytest.CaptureFixture[str]) -> None:
    structlog.reset_defaults()
    with log_published(Broker(log_exchange=True)):
        log.logger().info("one")
        assert not structlog.is_configured()
    assert not capsys.readouterr().out


async def test_what_other_threads_log_is_written_only(written: StringIO) -> None:
    broker = Broker(log_exchange=True)
    listening(broker, "error")
    with log_published(broker):
        thread = threading.Thread(target=lambda: structlog.get_logger().error("elsewhere"))
        thread.start()
        thread.join()
    assert list(broker.vhosts["/"].queues["log"]) == []
    assert "elsewhere" in written.getvalue()


async def test_what_publishing_logs_is_not_published() -> None:
    broker = Broker(log_exchange=True)
    listening(broker, "#")
    with log_published(broker):
        vhost = broker.vhosts["/"]
        publish = vhost.publish

        def published(*arguments: object) -> None:
            structlog.get_logger().info("one more")
            publish(*arguments)  # type: ignore[arg-type]

        vhost.publish = published  # type: ignore[method-assign, assignment]
        structlog.get_logger().info("one")
    assert len(list(vhost.queues["log"])) == 1


async def test_a_line_that_cannot_be_published_is_written_all_the_same(
    written: StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(log_exchange=True)
    listening(broker, "#")

    def fails(*arguments: object) -> None:
        raise RuntimeError("on purpose")

    monkeypatch.setattr(broker.vhosts["/"], "publish", fails)
    with log_published(broker):
        structlog.get_logger().info("one")
    assert "one" in written.getvalue()
    assert broker.events.failures == 1


@pytest.mark.parametrize("is_there", [True, False])
async def test_as_it_is_configured(is_there: bool) -> None:
    async with configured(Settings(log_exchange=is_there)) as server:
        assert ("amq.rabbitmq.log" in server.broker.vhosts["/"].exchanges) is is_there
        if is_there:
            listening(server.broker, "info")
            structlog.get_logger().info("one")
            assert len(list(server.broker.vhosts["/"].queues["log"])) == 1
