"""A scout gives each client the answer to its own request."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from amqproxy.amqp091.methods import (
    ConnectionClose,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)
from amqproxy.proxy.amqp091.pools.request_proof import Answer, RequestProofs, Verdict
from amqproxy.proxy.amqp091.pools.scout import Scout
from amqproxy.proxy.amqp091.pools.shared_upstream import SharedUpstream
from amqproxy.sockets.transport import TransportBroken
from tests.proxy.amqp091.pools.scripted_broker import ScriptedBroker


class Stage:
    """A scout with the brokers on which it has tried something."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.brokers: list[ScriptedBroker] = []
        self.scout = Scout(self._open, RequestProofs(trio.current_time), 5.0)
        self.answers: list[Answer] = []
        self._nursery = nursery

    async def _open(self) -> SharedUpstream:
        broker = ScriptedBroker.opened(QueueDeclare)
        self.brokers.append(broker)
        upstream = broker.upstream(lambda upstream, reason: self.scout.note_end())
        self._nursery.start_soon(upstream.run)
        upstream.flush()
        return upstream

    async def prove(self, method: Method, scope: trio.CancelScope | None = None) -> None:
        with scope or trio.CancelScope():
            self.answers.append(await self.scout.prove(method))


async def test_a_client_that_leaves_does_not_leave_its_answer_to_the_next_one(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        stage = Stage(nursery)
        leaving = trio.CancelScope()
        nursery.start_soon(stage.prove, QueueDeclare(queue="a"), leaving)
        await wait_all_tasks_blocked()
        leaving.cancel()
        nursery.start_soon(stage.prove, QueueDelete(queue="b"))
        await wait_all_tasks_blocked()
        (broker,) = stage.brokers
        broker.write(1, QueueDeclareOk("a", 0, 0))
        await wait_all_tasks_blocked()
        broker.write(1, QueueDeleteOk(0))
        await wait_all_tasks_blocked()
        assert stage.answers[-1] == Answer(QueueDeleteOk(0))
        assert stage.scout.verdict(QueueDeclare(queue="a").encode()) is Verdict.PROVEN
        nursery.cancel_scope.cancel()


async def test_a_hard_error_is_that_of_its_author(autojump_clock: object) -> None:
    close = ConnectionClose(541, "INTERNAL_ERROR", 50, 10)
    async with trio.open_nursery() as nursery:
        stage = Stage(nursery)
        nursery.start_soon(stage.prove, QueueDeclare(queue="a"))
        await wait_all_tasks_blocked()
        nursery.start_soon(stage.prove, QueueDelete(queue="b"))
        await wait_all_tasks_blocked()
        stage.brokers[0].write(0, close)
        await wait_all_tasks_blocked()
        stage.brokers[1].write(1, QueueDeleteOk(0))
        await wait_all_tasks_blocked()
        assert stage.answers == [Answer(connection_close=close), Answer(QueueDeleteOk(0))]
        assert stage.scout.verdict(QueueDeclare(queue="a").encode()) is Verdict.HARD
        nursery.cancel_scope.cancel()


async def test_a_broker_that_does_not_answer_is_given_up(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        stage = Stage(nursery)
        with pytest.raises(TransportBroken, match=r"has not answered queue.declare within 5 s"):
            await stage.scout.prove(QueueDeclare(queue="a"))
        await wait_all_tasks_blocked()
        assert stage.brokers[0].is_closed
        nursery.cancel_scope.cancel()


async def test_a_method_that_is_not_answered_fails_for_those_alone_who_wait_for_it(autojump_clock: object) -> None:
    async with trio.open_nursery() as nursery:
        stage = Stage(nursery)
        failed: list[float] = []
        slow = QueueDeclare(queue="slow")

        async def fail() -> None:
            if await stage.scout.await_verdict(slow.encode()) is Verdict.UNKNOWN:
                await stage.scout.prove(slow)

        async def note_failure() -> None:
            with pytest.raises(TransportBroken, match=r"has not answered queue.declare within 5 s"):
                await fail()
            failed.append(trio.current_time())

        nursery.start_soon(note_failure)
        await trio.sleep(1)
        nursery.start_soon(note_failure)
        nursery.start_soon(stage.prove, QueueBind(0, "q", "amq.direct", "key"))
        await trio.sleep(10)
        assert len(failed) == 2
        assert len(set(failed)) == 1
        assert stage.answers == [Answer(QueueBindOk())]
        nursery.cancel_scope.cancel()


async def test_a_proof_counts_though_the_trial_has_failed(autojump_clock: object) -> None:
    """Another client may have had its answer on a shared connection meanwhile."""
    async with trio.open_nursery() as nursery:
        stage = Stage(nursery)
        slow, verdicts = QueueDeclare(queue="slow"), []

        async def author() -> None:
            with pytest.raises(TransportBroken):
                await stage.scout.prove(slow)

        async def wait() -> None:
            verdicts.append(await stage.scout.await_verdict(slow.encode()))

        nursery.start_soon(author)
        await wait_all_tasks_blocked()
        nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        stage.scout.note_proof(slow.encode())
        await trio.sleep(10)
        assert verdicts == [Verdict.PROVEN]
        nursery.cancel_scope.cancel()
