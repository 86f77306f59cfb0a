"""Runs over quorum queues that count returns: no message dies, whatever the run does and however it ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import trio

from amqproxy.broker.access.permissions import Permission
from amqproxy.moving.message_forwarder import MoveFailed
from amqproxy.testing.local_broker import LocalBroker
from amqproxy.workbench.destination import ToExchange
from amqproxy.workbench.held_message import HeldMessage
from amqproxy.workbench.queue_facts import Given
from amqproxy.workbench.queue_pass import Outcome
from amqproxy.workbench.run_report import RunReport
from amqproxy.workbench.runs import Bench, RunPlan, Told, look_through
from tests.workbench.bench_queue import BenchAt

ONCE = Given(type="quorum", delivery_limit=1)

RUNS = 4
"""More than the delivery limit."""

NUMBERS = [b"0", b"1", b"2"]


@pytest.fixture(scope="module")
def older_broker() -> Iterator[LocalBroker]:
    with LocalBroker("4.0") as broker:
        yield broker


@pytest.fixture
def older(older_broker: LocalBroker, tmp_path: Path) -> BenchAt:
    return BenchAt(older_broker.port, tmp_path)


class Fails:
    """An action that fails in the middle of a batch."""

    uncertain = 0

    def __init__(self, failure: Exception) -> None:
        self.failure = failure

    async def settle(self, messages: Sequence[HeldMessage]) -> Sequence[Outcome]:
        raise self.failure


def test_messages_that_a_full_target_refuses_survive_any_number_of_runs(older: BenchAt) -> None:
    source = older.numbered(3, x_queue_type="quorum", x_delivery_limit=1)
    for _ in range(RUNS):
        assert older.moved(source, ToExchange("", "none"), ONCE).left_count == 3
    assert sorted(older.bodies(source)) == NUMBERS


def test_messages_survive_runs_that_fail(older: BenchAt) -> None:
    source = older.numbered(3, x_queue_type="quorum", x_delivery_limit=1)
    for _ in range(RUNS):
        assert older.settled(source, Fails(MoveFailed("full disk")), ONCE).failure == "full disk"
        with pytest.raises(BrokenPipeError):
            older.settled(source, Fails(BrokenPipeError()), ONCE)
    assert sorted(older.bodies(source)) == NUMBERS


def test_messages_survive_runs_that_are_cancelled(older: BenchAt) -> None:
    source = older.numbered(3, x_queue_type="quorum", x_delivery_limit=1)

    async def work(bench: Bench, plan: RunPlan, told: Told, report: RunReport) -> None:
        with trio.CancelScope() as scope:

            class Cancels:
                uncertain = 0

                async def settle(self, messages: Sequence[HeldMessage]) -> Sequence[Outcome]:
                    scope.cancel()
                    await trio.sleep_forever()
                    raise AssertionError

            await look_through(bench, Cancels(), plan, told, report)

    for _ in range(RUNS):
        older.run("drain", source, work, ONCE)
    assert sorted(older.bodies(source)) == NUMBERS


def test_a_failed_run_does_not_count_as_a_return_on_4_3(bench: BenchAt) -> None:
    source = bench.numbered(3, x_queue_type="quorum", x_delivery_limit=1)
    for _ in range(RUNS):
        assert bench.settled(source, Fails(MoveFailed("full disk")), Given()).failure == "full disk"
    assert bench.bodies(source) == NUMBERS


@pytest.mark.parametrize("permission", [Permission("", "", ".*"), Permission(".*", "^bench", ".*")])
def test_a_user_who_could_not_rescue_touches_nothing(
    older: BenchAt, older_broker: LocalBroker, permission: Permission
) -> None:
    source = older.numbered(3, x_queue_type="quorum", x_delivery_limit=1)
    older_broker.do(lambda broker, now: broker.users["guest"].permit("/", permission))
    try:
        assert older.peeked(source, ONCE) == []
    finally:
        older_broker.do(lambda broker, now: broker.users["guest"].permit("/", Permission(".*", ".*", ".*")))
    assert "so no message was touched" in older.report.failure
    assert "403" in older.report.failure
    assert not any(method.redelivered for method, _, _ in older.taken(source))


def test_what_a_run_declares_is_gone_after_it(older: BenchAt, older_broker: LocalBroker) -> None:
    source = older.numbered(1, x_queue_type="quorum", x_delivery_limit=1)
    older.peeked(source, ONCE)
    older.settled(source, Fails(MoveFailed("full disk")), ONCE)
    names = older_broker.do(lambda broker, now: list(broker.vhosts["/"].exchanges))
    assert not [name for name in names if source in name]
