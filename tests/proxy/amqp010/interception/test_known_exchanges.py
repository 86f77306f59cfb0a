"""Which destinations are known to be exchanges."""

from __future__ import annotations

import pytest

from amqproxy.amqp010.commands import (
    ExchangeBound,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeQuery,
    ExecutionResult,
    ExecutionSync,
    MessageTransfer,
)
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.results import ExchangeBoundResult, ExchangeQueryResult
from amqproxy.proxy.amqp010.interception import known_exchanges
from amqproxy.proxy.amqp010.interception.known_exchanges import KnownExchanges
from amqproxy.proxy.interception.queued_bytes import QueuedBytes
from amqproxy.proxy.memory_budget import MemoryBudget, MemoryShare

TO_E = MessageTransfer("e", 0, 0)


def known_exchanges_of(share: MemoryShare | None = None) -> KnownExchanges:
    """Those of a new connection."""
    return KnownExchanges(QueuedBytes(share or MemoryShare(MemoryBudget())))


@pytest.mark.parametrize(
    ("method", "falls_back"),
    [
        (MessageTransfer("", 0, 0), False),
        (MessageTransfer(None, 0, 0), False),
        (MessageTransfer("amq.topic", 0, 0), False),
        (MessageTransfer("amq.other", 0, 0), True),
        (TO_E, True),
        (ExecutionSync(), False),
    ],
)
def test_what_is_known_of_every_broker(method: Method, falls_back: bool) -> None:
    assert known_exchanges_of().falls_back(1, method) is falls_back


def test_what_the_client_does() -> None:
    known = known_exchanges_of()
    known.note_command(1, 0, ExchangeDeclare("e", "direct", auto_delete=True))
    assert known.falls_back(1, TO_E), "it may be gone at any time"
    known.note_command(1, 1, ExchangeDeclare("e", "direct"))
    assert not known.falls_back(1, TO_E)
    known.note_command(1, 2, ExchangeDelete("e"))
    assert known.falls_back(1, TO_E)


@pytest.mark.parametrize(
    ("question", "answer", "is_there"),
    [
        (ExchangeQuery("e"), ExchangeQueryResult("direct"), True),
        (ExchangeQuery("e"), ExchangeQueryResult(not_found=True), False),
        (ExchangeBound("e", "q"), ExchangeBoundResult(queue_not_found=True), True),
        (ExchangeBound("e", "q"), ExchangeBoundResult(exchange_not_found=True), False),
    ],
)
def test_what_the_broker_answers(question: Method, answer: object, is_there: bool) -> None:
    known = known_exchanges_of()
    known.note_command(1, (1 << 32) + 7, question)
    assert known.is_awaited
    known.note_result(2, ExecutionResult(7, ExchangeQueryResult("direct")))
    known.note_result(1, ExecutionResult(8, ExchangeQueryResult("direct")))
    assert known.falls_back(1, TO_E)
    known.note_result(1, ExecutionResult(7, answer))
    assert known.falls_back(1, TO_E) is not is_there
    assert not known.is_awaited


def test_the_answers_to_a_session_that_has_ended_are_not_awaited() -> None:
    known = known_exchanges_of()
    known.note_command(1, 0, ExchangeQuery("e"))
    known.forget(1)
    known.note_result(1, ExecutionResult(0, ExchangeQueryResult("direct")))
    assert known.falls_back(1, TO_E)


def test_what_a_session_declares_is_known_on_that_session_only() -> None:
    """A declare that fails ends its session: a passive one of a queue's name, for example."""
    known = known_exchanges_of()
    known.note_command(1, 0, ExchangeDeclare("e", passive=True))
    assert not known.falls_back(1, TO_E), "should it fail, nothing more is taken there"
    assert known.falls_back(2, TO_E)
    known.forget(1)
    assert known.falls_back(1, TO_E)


def test_an_answer_from_before_an_exchange_was_deleted_is_out_of_date() -> None:
    known = known_exchanges_of()
    known.note_command(1, 0, ExchangeDeclare("e", "direct"))
    known.note_command(2, 0, ExchangeQuery("e"))
    known.note_command(1, 1, ExchangeDelete("e"))
    known.note_result(2, ExecutionResult(0, ExchangeQueryResult("direct")))
    assert known.falls_back(1, TO_E)
    assert known.falls_back(2, TO_E)


def test_answers_to_a_session_that_the_client_has_left_are_not_those_to_its_next() -> None:
    known = known_exchanges_of()
    known.note_command(1, 0, ExchangeQuery("d"))
    known.leave(1)
    known.note_command(1, 0, ExchangeQuery("e"))
    known.note_result(1, ExecutionResult(0, ExchangeQueryResult("direct")))
    assert known.falls_back(1, TO_E)
    assert known.falls_back(1, MessageTransfer("d", 0, 0))
    known.note_command(1, 1, ExchangeQuery("e"))
    known.note_result(1, ExecutionResult(1, ExchangeQueryResult("direct")))
    assert not known.falls_back(1, TO_E)


def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_exchanges, "MAX_EXCHANGES", 1)
    known = known_exchanges_of()
    for name in "ed":
        known.note_command(1, 0, ExchangeDeclare(name, "direct"))
    assert not known.falls_back(1, TO_E)
    assert known.falls_back(1, MessageTransfer("d", 0, 0)), "what is not known is judged as both"


def test_each_name_and_question_counts_until_it_is_forgotten() -> None:
    share = MemoryShare(MemoryBudget())
    known = known_exchanges_of(share)
    known.note_command(1, 0, ExchangeDeclare("e", "direct"))
    known.note_command(1, 1, ExchangeQuery("d"))
    known.note_command(2, 0, ExchangeQuery("c"))
    assert share.used == 3 * known_exchanges.ENTRY_COST
    known.note_result(2, ExecutionResult(0, ExchangeQueryResult("direct")))
    known.note_command(1, 2, ExchangeDelete("e"))
    assert share.used == 2 * known_exchanges.ENTRY_COST
    known.forget(1)
    known.note_command(2, 1, ExchangeDelete("c"))
    assert share.used == 0
