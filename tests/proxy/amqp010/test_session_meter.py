"""Messages of a session of 0-10 are counted."""

from __future__ import annotations

import structlog

from amqproxy.peer import CLIENT
from amqproxy.proxy.amqp010.session_meter import Amqp010SessionMeter
from amqproxy.taps.metrics import Metrics
from tests.proxy.amqp010_script import ATTACH, LOGIN, MESSAGES
from tests.proxy.amqp010_stage import close, play
from tests.proxy.stage import staged


async def test_messages_are_counted() -> None:
    async with staged() as stage:
        await play(stage, [*LOGIN, *ATTACH, *MESSAGES[:5]])
        assert stage.count("messages_published_total") == 3
        assert stage.count("messages_confirmed_total") == 2
        assert stage.count("messages_returned_total") == 1
        assert stage.count("messages_delivered_total") == 4
        assert stage.count("messages_unacked") == 3
        assert stage.count("published_bytes_sum") == 10_002
        assert stage.count("request_seconds_count", method="queue.declare") == 1
        assert stage.session.traffic is not None
        attachment = stage.session.traffic.metered.attachment(1)
        assert attachment is not None
        assert (attachment.unconfirmed, attachment.unacked) == (0, 3)
        await close(stage)
        assert stage.count("messages_unacked") == 0


async def test_what_cannot_be_read_is_not_waited_for() -> None:
    async with staged() as stage:
        await play(stage, [*LOGIN, *ATTACH, MESSAGES[0], (CLIENT, b"\xff" * 20)])
        assert stage.count("messages_published_total") == 3
        assert stage.count("messages_unconfirmed") == 0
        assert stage.session.traffic is not None
        assert stage.session.traffic.metered.is_lost
        await close(stage)


def test_one_that_fails_counts_no_more(log: list[structlog.typing.EventDict]) -> None:
    meter = Amqp010SessionMeter(Metrics(), 7, "10.0.0.1:40000-10.0.0.2:5672")
    meter.saw(CLIENT, b"no frame")
    assert meter.is_lost
    assert meter.attachment(1) is None
    meter.saw(CLIENT, b"no frame")
    [line] = [each for each in log if each["log_level"] == "error"]
    assert (line["event"], line["session"], line["client"]) == ("messages not counted", 7, "10.0.0.1:40000")


def test_messages_need_not_be_counted() -> None:
    meter = Amqp010SessionMeter(Metrics(counts_messages=False), 7, "")
    meter.saw(CLIENT, b"no frame")
    assert meter.is_lost
    meter.close()
