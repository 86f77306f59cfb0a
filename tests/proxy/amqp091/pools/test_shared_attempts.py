"""An attempt is made once for all who wait for it."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from amqproxy.amqp091.errors import NotAllowed
from amqproxy.proxy.amqp091.pools.shared_attempts import SharedAttempts, duplicate
from amqproxy.proxy.logins.handshake import ClosedByBroker
from amqproxy.proxy.upstream import Unreachable


class Maker:
    """Makes attempts that end when the test says so."""

    def __init__(self) -> None:
        self.made = 0
        self.may_end = trio.Event()
        self.failure: Exception | None = None

    async def make(self) -> int:
        self.made += 1
        number = self.made
        await self.may_end.wait()
        if self.failure is not None:
            raise self.failure
        return number


async def test_all_who_wait_get_one_result(nursery: trio.Nursery) -> None:
    attempts, maker = SharedAttempts(nursery.start_soon), Maker()
    results: list[int] = []

    async def wait() -> None:
        results.append(await attempts.outcome("key", maker.make))

    leaving = trio.CancelScope()

    async def leave() -> None:
        with leaving:
            await wait()

    nursery.start_soon(leave)
    await wait_all_tasks_blocked()
    for _ in range(3):
        nursery.start_soon(wait)
    await wait_all_tasks_blocked()
    leaving.cancel()
    await wait_all_tasks_blocked()
    maker.may_end.set()
    await wait_all_tasks_blocked()
    assert results == [1, 1, 1]
    assert len(attempts) == 0
    assert await attempts.outcome("key", maker.make) == 2


async def test_a_failure_is_that_of_all_who_wait_and_of_nobody_later(nursery: trio.Nursery) -> None:
    attempts, maker = SharedAttempts(nursery.start_soon), Maker()
    maker.failure = Unreachable("timeout", "does not answer", "main")
    failures: list[Unreachable] = []

    async def wait() -> None:
        with pytest.raises(Unreachable) as failed:
            await attempts.outcome("key", maker.make)
        failures.append(failed.value)

    for _ in range(3):
        nursery.start_soon(wait)
    await wait_all_tasks_blocked()
    maker.may_end.set()
    await wait_all_tasks_blocked()
    assert [(str(each), each.kind) for each in failures] == [("does not answer", "timeout")] * 3
    assert len({id(each) for each in failures}) == 3
    maker.failure = None
    assert await attempts.outcome("key", maker.make) == 2


@pytest.mark.parametrize("error", [ClosedByBroker(403, "refused"), NotAllowed("full"), Unreachable("no answer", "x")])
def test_a_duplicate_is_equal(error: Exception) -> None:
    found = duplicate(error)
    assert found is not error
    assert (type(found), str(found), vars(found)) == (type(error), str(error), vars(error))
