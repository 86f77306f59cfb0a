"""Filters that cannot be evaluated say so, once for each reader."""

from __future__ import annotations

import pytest

from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.properties import Header, MessageProperties
from amqproxy.amqp010.wire import Map
from amqproxy.amqp091.methods import BasicPublish
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.peer import CLIENT
from amqproxy.rules.context import Client
from amqproxy.rules.matching.watched_filter import WatchedFilter
from amqproxy.rules.message_filter import MessageFilter
from amqproxy.taps.amqp010.transfers import TransferProperties, TransferPublish

EXPRESSION = "int(headers.attempt) > 3"


def selects(chosen: WatchedFilter, attempt: object, *, is_amqp010: bool) -> bool:
    selector = MessageFilter(chosen, Client.named(1, "a-b"))
    if not is_amqp010:
        properties = Properties(headers=Table({"attempt": attempt}))
        return selector.selects(CLIENT, 1, BasicPublish(), properties, 0, b"", ts_ns=0)
    header = Header((MessageProperties(application_headers=Map({"attempt": attempt})),))
    publish = TransferPublish.of(MessageTransfer(), header)
    return selector.selects(CLIENT, 1, publish, TransferProperties(header), 0, b"", ts_ns=0)


@pytest.mark.parametrize("is_amqp010", [False, True])
def test_the_reason_is_said_once(is_amqp010: bool) -> None:
    said: list[str] = []
    chosen = WatchedFilter(EXPRESSION, said.append)
    assert selects(chosen, 4, is_amqp010=is_amqp010)
    assert not selects(chosen, 3, is_amqp010=is_amqp010)
    assert said == []
    for _ in range(3):
        assert selects(chosen, "many", is_amqp010=is_amqp010)
    (text,) = said
    assert text.startswith(f"'{EXPRESSION}' fails on some records, which are shown (reported once): ")


def test_each_reader_is_told() -> None:
    said: list[str] = []
    for _ in range(2):
        assert selects(WatchedFilter(EXPRESSION, said.append), "many", is_amqp010=False)
    assert len(said) == 2


def test_what_is_absent_is_no_failure() -> None:
    said: list[str] = []
    selector = MessageFilter(WatchedFilter(EXPRESSION, said.append), Client.named(1, "a-b"))
    assert not selector.selects(CLIENT, 1, BasicPublish(), Properties(), 0, b"", ts_ns=0)
    assert said == []


def test_a_wrong_expression_is_refused() -> None:
    with pytest.raises(ValueError, match="exchnge"):
        WatchedFilter("exchnge == 'a'", print)
