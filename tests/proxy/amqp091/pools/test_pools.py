"""Logins of pooled clients, as the broker decides."""

from __future__ import annotations

from typing import Any, cast

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from amqproxy.amqp091.errors import AccessRefused, ConnectionForced
from amqproxy.amqp091.methods import ConnectionOpen, ConnectionStartOk, Method
from amqproxy.configuration.pool_config import PoolConfig
from amqproxy.proxy.amqp091.pools.pool import Pool, PoolKey
from amqproxy.proxy.amqp091.pools.pools import Pools
from amqproxy.proxy.logins.attempt import LoginAttempt, LoginDenied
from amqproxy.proxy.logins.credential import Credential
from amqproxy.proxy.logins.handshake import ClosedByBroker
from amqproxy.proxy.upstream import Unreachable
from amqproxy.proxy.upstreams.client_pools import Connect
from amqproxy.proxy.upstreams.member import Member
from amqproxy.proxy.upstreams.upstreams import Upstreams
from amqproxy.rules.context import Client
from amqproxy.rules.rewriting.secret import Secret
from amqproxy.taps.metrics import Metrics
from tests.proxy.amqp091.pools.scripted_broker import ScriptedBroker


class FakePool:
    """A pool that notes why it was lost."""

    def __init__(self, key: PoolKey) -> None:
        self.key = key
        self.config = PoolConfig()
        self.is_empty = False
        self.verified_at = trio.current_time()
        self.lost: list[str] = []

    def lose(self, reason: str) -> None:
        self.lost.append(reason)

    def keep(self, now: float) -> None:
        """Keep all."""


def refusing(code: int, nursery: trio.Nursery) -> tuple[Pools, FakePool]:
    """Return pools whose broker refuses everybody with a code from now on, and one that it had accepted before."""

    async def reach(members: list[Member], login: Any) -> Any:
        raise ClosedByBroker(code, "REFUSED")

    pools = Pools("main", PoolConfig())
    pools.start = nursery.start_soon
    pools.connect = Connect(lambda client: [], reach)
    key = PoolKey(cast("Member", object()), "/", "guest", pools.trust.digest(Credential("guest", Secret("guest"))))
    pool = FakePool(key)
    pools.pools[key] = cast("Pool", pool)
    return pools, pool


def attempt(password: str = "guest") -> LoginAttempt:
    return LoginAttempt("PLAIN", "guest", Secret(password), Client())


async def test_a_password_that_is_revoked_ends_its_pools_however_late(
    autojump_clock: object, nursery: trio.Nursery
) -> None:
    pools, pool = refusing(AccessRefused.code, nursery)
    await trio.sleep(100)
    pools.keep()
    with pytest.raises(LoginDenied):
        await pools.check(attempt())
    assert pool.lost == ["the broker no longer accepts the credentials"]


async def test_a_wrong_password_ends_nothing_and_is_not_remembered(
    autojump_clock: object, nursery: trio.Nursery
) -> None:
    pools, pool = refusing(AccessRefused.code, nursery)
    for number in range(100):
        with pytest.raises(LoginDenied):
            await pools.check(attempt(f"wrong {number}"))
    assert pool.lost == []
    assert not len(pools.trust)
    assert not len(pools._attempts)
    assert not len(pools._spares)


async def test_a_broker_that_refuses_everybody_for_now_ends_nothing(
    autojump_clock: object, nursery: trio.Nursery
) -> None:
    pools, pool = refusing(ConnectionForced.code, nursery)
    with pytest.raises(Unreachable):
        await pools.check(attempt())
    assert pool.lost == []


@pytest.mark.parametrize("method", [ConnectionStartOk, ConnectionOpen])
async def test_a_broker_that_never_answers_locks_no_pool(
    autojump_clock: object, nursery: trio.Nursery, method: type[Method]
) -> None:
    """Each attempt ends, and counts against the member; so a client gets a place once the broker answers again."""
    unanswered: set[type[Method]] = {method}

    async def dial() -> Any:
        return ScriptedBroker(["guest"], unanswered=unanswered)

    upstreams = Upstreams.of(dial, Metrics())
    upstreams.start = nursery.start_soon
    (group,) = upstreams.groups
    pools = Pools("main", PoolConfig())
    upstreams._lend(group, pools)

    async def come() -> Pool:
        await pools.check(attempt())
        credential = Credential("guest", Secret("guest"))
        return await pools._pool(Client(vhost="/"), credential, pools.trust.digest(credential))

    for _ in range(2):
        with trio.fail_after(60), pytest.raises(Unreachable) as failed:
            await come()
        assert failed.value.kind == "no answer"
    assert sum(each.failures_by_kind["no answer"] for each in group.members) == 2
    assert (pools._opening, len(pools._attempts)) == (0, 0)
    unanswered.clear()
    assert (await come()).connections == 1
    nursery.cancel_scope.cancel()


async def test_pools_that_are_removed_are_kept_while_a_login_is_under_way(
    autojump_clock: object, nursery: trio.Nursery
) -> None:
    """What it opens is closed, though its client has left."""
    brokers: list[ScriptedBroker] = []
    may_open = trio.Event()

    async def dial() -> Any:
        await may_open.wait()
        brokers.append(ScriptedBroker(["guest"]))
        return brokers[-1]

    upstreams = Upstreams.of(dial, Metrics())
    upstreams.start = nursery.start_soon
    (group,) = upstreams.groups
    group.pools = pools = Pools("main", PoolConfig())
    upstreams._lend(group, pools)
    nursery.start_soon(upstreams.keep_pools)
    await wait_all_tasks_blocked()
    with trio.move_on_after(1):
        await pools.check(attempt())
    group.pools = None
    await trio.sleep(2)
    may_open.set()
    await wait_all_tasks_blocked()
    assert [each.is_closed for each in brokers] == [False]
    await trio.sleep(60)
    assert [each.is_closed for each in brokers] == [True]
    nursery.cancel_scope.cancel()


async def test_a_token_that_is_refused_ends_the_pools_of_its_own_user_alone(
    autojump_clock: object, nursery: trio.Nursery
) -> None:
    pools, _ = refusing(AccessRefused.code, nursery)
    found = {}
    for user in ("first", "second"):
        digest = pools.trust.digest(Credential(user, Secret(f"token of {user}"), is_token=True))
        key = PoolKey(cast("Member", object()), "/", user, digest)
        found[user] = FakePool(key)
        pools.pools[key] = cast("Pool", found[user])
    pools.revoke(pools.trust.digest(Credential("first", Secret("next"), is_token=True)))
    assert found["first"].lost
    assert not found["second"].lost
