"""The last errors: those that are alike are one, and they are bounded."""

from __future__ import annotations

import pytest

from amqproxy.amqp010 import commands
from amqproxy.amqp091.methods import QueueDeclare
from amqproxy.dashboard import error_log as module
from amqproxy.dashboard.error_log import ErrorLog
from amqproxy.dashboard.party import Party
from amqproxy.peer import CLIENT, SERVER
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.trace.events import ChannelClosed, ConnectionClosed

pytestmark = pytest.mark.once

SHOP = Party("shop", "guest", "/")


def test_a_closed_channel_names_what_it_was_closed_for() -> None:
    log = ErrorLog()
    closed = ChannelClosed(5, 1, by=SERVER, code=406, text="PRECONDITION_FAILED", method="queue.declare")
    log.take(3, SHOP, [ChannelClosed(4, 1, by=CLIENT, code=200, text="bye")], 7)
    for cause in (QueueDeclare(queue="q"), commands.QueueDeclare(queue="q")):
        log.take(3, SHOP, [ChannelClosed(5, 1, by=SERVER, code=406, text="no", cause=cause)], 7)
    log.take(3, SHOP, [closed, ConnectionClosed(6, by=None, code=0, text="cut")], 7)
    plain, named = log.newest_first()
    assert (named.queue, named.count, named.by, named.client, named.frame) == ("q", 2, "server", "shop", 7)
    assert (plain.queue, plain.method, plain.code) == (None, "queue.declare", 406)


def test_messages_that_were_returned_refused_or_rejected() -> None:
    log = ErrorLog()
    common = {"ts_ns": 1, "stream": 3, "connection": "a-b", "channel": 1, "exchange": "orders", "routing_key": "k"}
    for type, outcome, code in (("publish", "confirmed", 312), ("publish", "nacked", None), ("publish", "sent", None)):
        log.take_record(SHOP, MessageRecord(**common, type=type, outcome=outcome, code=code), 1)  # type: ignore[arg-type]
    for outcome in ("rejected", "rejected", "acked"):
        log.take_record(SHOP, MessageRecord(**common, type="deliver", outcome=outcome, queue="q"), 1)  # type: ignore[arg-type]
    found = [(each.what, each.count, each.queue) for each in log.newest_first()]
    assert found == [("rejected", 2, "q"), ("nacked", 1, None), ("returned", 1, None)]


def test_errors_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ERRORS", 3)
    log = ErrorLog()
    for code in range(300, 310):
        log.take(1, SHOP, [ConnectionClosed(code, by=SERVER, code=code, text="x" * 10_000)], 0)
    found = list(log.newest_first())
    assert [each.code for each in found] == [309, 308, 307]
    assert len(found[0].text) == module.MAX_TEXT
