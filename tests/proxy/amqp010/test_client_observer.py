"""What is noted of what a session's client of AMQP 0-10 asks for."""

from __future__ import annotations

import gc

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from amqproxy.amqp010.commands import ExecutionException, ExecutionSync, MessageSubscribe, QueueDeclare, TxSelect
from amqproxy.amqp010.controls import SessionCompleted
from amqproxy.amqp010.wire import Map
from amqproxy.peer import CLIENT, SERVER
from amqproxy.proxy.amqp010.client_observer import Amqp010ClientObserver
from amqproxy.proxy.amqp010.pass_through import Amqp010PassThrough
from amqproxy.pump.pumps import are_available, may_be_idle
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.taps.topology.observed_objects import Actor, ObservedQueue
from amqproxy.taps.topology.observed_topology import ObservedTopology
from tests.proxy import stage as staging
from tests.proxy.amqp010_script import ATTACH, CLOSE, DETACH, LOGIN, Step, ids, method
from tests.proxy.amqp010_stage import close, play
from tests.proxy.session.collector import without_collector
from tests.proxy.stage import staged
from tests.rules.scene import rule

DECLARE: list[Step] = [
    (CLIENT, method(TxSelect()) + method(QueueDeclare("q")) + method(MessageSubscribe("q", "d"))),
    (SERVER, method(SessionCompleted(ids((0, 1))))),
]
COMPLETED: Step = (SERVER, method(SessionCompleted(ids((0, 2)))))


def queues(topology: ObservedTopology) -> list[tuple[str, int]]:
    return [(each.name, each.consumers) for each in topology.entries() if isinstance(each, ObservedQueue)]


@pytest.mark.parametrize("piece", [1, 1 << 20])
async def test_what_the_broker_completes_is_observed_until_the_session_ends(piece: int) -> None:
    topology = ObservedTopology()
    async with staged(topology=topology) as stage:
        await play(stage, [*LOGIN, *ATTACH, DECLARE[0]], piece)
        assert queues(topology) == []
        await play(stage, DECLARE[1:], piece)
        [queue] = topology.entries()
        assert queue.vhost == "test"
        assert queue.declared_by is not None
        assert (queue.declared_by.session, queue.declared_by.user, queue.declared_by.client) == (1, "guest", "c:1")
        assert queues(topology) == [("q", 0)]
        assert stage.session.traffic is not None
        assert stage.session.traffic.channel_views == {}
        await play(stage, [COMPLETED], piece)
        assert queues(topology) == [("q", 1)]
        assert list(stage.session.traffic.channel_views[1].consumers) == ["d"]
        await play(stage, DETACH, piece)
        assert queues(topology) == [("q", 0)]
        await close(stage)


async def test_what_the_broker_refuses_is_not_observed() -> None:
    topology = ObservedTopology()
    async with staged(topology=topology) as stage:
        await play(stage, [*LOGIN, *ATTACH, (CLIENT, method(QueueDeclare("a")) + method(QueueDeclare("b")))])
        await play(stage, [(SERVER, method(ExecutionException(404, 1)) + method(SessionCompleted(ids((0, 1)))))])
        assert queues(topology) == [("a", 0)]
        await close(stage)


async def test_what_is_never_completed_is_dropped_with_its_connection() -> None:
    topology = ObservedTopology()
    async with staged(topology=topology) as stage:
        await play(stage, [*LOGIN, *ATTACH, (CLIENT, method(QueueDeclare("a")) * 3 + method(ExecutionSync()))])
        assert topology.client_budget.used > 0
        stage.client.perform("EOF")
        stage.broker.perform("EOF")
        await stage.is_over.wait()
    assert queues(topology) == []
    assert topology.client_budget.used == 0


async def test_a_cut_connection_ends_its_consumers_and_its_queues() -> None:
    topology = ObservedTopology()
    async with staged(topology=topology) as stage:
        own = method(QueueDeclare("own", exclusive=True, auto_delete=True))
        await play(stage, [*LOGIN, *ATTACH, *DECLARE, COMPLETED, (CLIENT, own)])
        await play(stage, [(SERVER, method(SessionCompleted(ids((0, 3)))))])
        assert queues(topology) == [("q", 1), ("own", 0)]
        await close(stage)
    assert queues(topology) == [("q", 0)]


async def test_people_see_what_rules_leave_of_it() -> None:
    topology = ObservedTopology()
    masked = RuleSet([rule('action = "redact"\nfields = ["queue"]\narguments = ["secret"]')])
    async with staged(topology=topology, rules=masked) as stage:
        await play(stage, [*LOGIN, *ATTACH, (CLIENT, method(QueueDeclare("q", arguments=Map({"secret": "x"}))))])
        await play(stage, [(SERVER, method(SessionCompleted(ids((0, 0)))))])
        [queue] = topology.entries()
        assert isinstance(queue, ObservedQueue)
        assert (queue.name, queue.arguments) == ("***", {"secret": "***"})
        await close(stage)


@pytest.mark.parametrize(
    "pump",
    [
        pytest.param(-1, id="idle pump", marks=pytest.mark.skipif(not may_be_idle(), reason="it needs epoll")),
        pytest.param(
            1_000_000,
            id="pump",
            marks=pytest.mark.skipif(not are_available(), reason="a plain run has no pump: it is compiled"),
        ),
    ],
)
async def test_a_session_that_is_parked_is_still_observed(
    pump: int, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    monkeypatch.setattr(staging, "frames_a_pump", pump)
    topology = ObservedTopology()
    async with staged(topology=topology) as stage:
        await play(stage, [*LOGIN, *ATTACH, *DECLARE, COMPLETED])
        await trio.sleep(30)
        assert stage.session.is_parked
        assert queues(topology) == [("q", 1)]
        await play(stage, [(CLIENT, method(QueueDeclare("later"))), (SERVER, method(SessionCompleted(ids((0, 3)))))])
        await trio.sleep(30)
        assert stage.session.is_parked
        assert queues(topology) == [("q", 1), ("later", 0)]
        later = list(topology.entries())[1]
        assert (later.vhost, later.declared_by) == ("test", Actor(1, "guest", "c:1"))
        await play(stage, DETACH)
        assert queues(topology) == [("q", 0), ("later", 0)]
        await close(stage)


async def test_nothing_more_is_kept_of_a_parked_session_that_was_looked_at(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    monkeypatch.setattr(staging, "frames_a_pump", -1 if may_be_idle() else 1_000_000)

    def kept() -> int:
        return sum(isinstance(each, Amqp010PassThrough | Amqp010ClientObserver) for each in gc.get_objects())

    with without_collector():
        before = kept()
        async with staged(topology=ObservedTopology()) as stage:
            await play(stage, [*LOGIN, *ATTACH, *DECLARE, COMPLETED])
            await trio.sleep(30)
            assert stage.session.is_parked
            for _ in range(3):
                assert stage.session.shown.user == "guest"
                stage.session.refresh()
            assert kept() == before + 1, "what observes it"


async def test_nothing_is_kept_where_there_is_no_topology() -> None:
    async with staged() as stage:
        await play(stage, [*LOGIN, *ATTACH, *DECLARE, COMPLETED])
        assert stage.session.traffic is not None
        assert stage.session.traffic.channel_views == {}
        await play(stage, CLOSE)
        await close(stage)


async def test_a_failure_is_logged_and_no_trouble_to_the_session() -> None:
    topology = ObservedTopology()
    topology.carry_out = None  # type: ignore[assignment]
    async with staged(topology=topology) as stage:
        with capture_logs() as logs:
            await play(stage, [*LOGIN, *ATTACH, *DECLARE])
        assert [line["event"] for line in logs if line["log_level"] == "error"] == ["messages not counted"]
        await play(stage, [COMPLETED, *DETACH])
        await close(stage)
