"""The upstream connections of one member, virtual host and credential."""

from __future__ import annotations

import math
import random
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import trio

from amqproxy.amqp091.errors import NotAllowed
from amqproxy.amqp091.methods import BasicPublish
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.configuration.pool_config import PoolConfig
from amqproxy.configuration.values import join_address
from amqproxy.proxy.amqp091.pools.pool_counts import PoolCounts
from amqproxy.proxy.amqp091.pools.pool_login import LoggedIn
from amqproxy.proxy.amqp091.pools.request_proof import RequestProofs
from amqproxy.proxy.amqp091.pools.scout import Scout
from amqproxy.proxy.amqp091.pools.shared_attempts import Attempt, SharedAttempts
from amqproxy.proxy.amqp091.pools.shared_upstream import SharedClient, SharedUpstream
from amqproxy.proxy.upstreams.member import Member
from amqproxy.rules.rewriting.secret import Secret
from amqproxy.taps.shared_legs import SharedLeg, SharedLegs

MOST_WAITING = 1000
"""Largest number of clients that wait for a place."""

RECHECK = 0.25
"""Seconds after which a client that waits for a place looks again."""

JITTER = 0.1
"""Part of the lifetime by which connections differ, so that they do not all end together."""

_PUBLISH = BasicPublish.class_id, BasicPublish.method_id


class PoolKey(NamedTuple):
    """Member, virtual host and login that the clients of a pool have in common; `credential` is a digest."""

    member: Member
    vhost: str
    user: str
    credential: bytes


class Pool:
    """The shared upstreams of one key, and their scout.

    `open` opens a connection with the pool's virtual host, `has_room` is whether there may be another, and `start` runs
    a task. `verified_at` is when the broker last accepted the login. The connections are shown by `legs`.
    """

    def __init__(
        self,
        key: PoolKey,
        config: PoolConfig,
        open: Callable[[PoolKey], Awaitable[LoggedIn]],
        has_room: Callable[[], bool],
        start: Callable[[Callable[[], Awaitable[object]]], None],
        counts: PoolCounts,
        legs: SharedLegs | None = None,
    ) -> None:
        self.key = key
        self.config = config
        self.upstreams: list[SharedUpstream] = []
        self.waiting = self.pinned = 0
        self.is_retired = False
        """Whether a reload has removed the pool, which gives places only to clients that wait for one already."""
        self.verified_at = trio.current_time()
        self._open = open
        self._has_room = has_room
        self._start = start
        self._counts = counts
        self._legs = SharedLegs() if legs is None else legs
        self._attempts = SharedAttempts(start)
        self._freed = trio.Event()
        self.scout = Scout(self._open_scout, RequestProofs(trio.current_time), config.barrier_timeout)

    # --- places

    async def place(self) -> SharedUpstream:
        """Return an upstream that has a place for a client, within `wait`; raise `NotAllowed` if there is none."""
        if self.waiting >= MOST_WAITING:
            raise NotAllowed(f"pool exhausted: {self.waiting} clients wait for a place already")
        self.waiting += 1
        try:
            with trio.fail_after(self.config.wait):
                return await self._place()
        except trio.TooSlowError:
            self._counts.exhausted += 1
            raise NotAllowed(f"pool exhausted: no place within {self.config.wait:g} s") from None
        finally:
            self.waiting -= 1

    async def _place(self) -> SharedUpstream:
        growth: Attempt | None = None
        while True:
            found = self._free_upstream()
            if found is not None:
                return found
            if growth is not None and growth.over.is_set():
                _ = growth.outcome  # raises its failure
                growth = None
            if growth is None and self._may_grow:
                growth = self._attempts.join("grow", self._grow)
            if self._freed.is_set():
                self._freed = trio.Event()
            with trio.move_on_after(RECHECK):  # room may also be left by other pools, and by channels
                await self._freed.wait()

    async def _grow(self) -> None:
        try:
            opened = await self._open(self.key)
            if self.is_retired and not self.waiting:
                self._start(opened.close)
            else:
                self.add(opened)
        finally:
            self._freed.set()

    @property
    def _may_grow(self) -> bool:
        """Whether another connection may be opened; those that are too old for further clients do not count."""
        now = trio.current_time()
        return sum(now < each.retires_at for each in self.upstreams) < self.config.upstreams and self._has_room()

    def _free_upstream(self) -> SharedUpstream | None:
        """Return the upstream with the fewest clients, if it has a place.

        A member that fails is used if the group offers it: all others may fail, too.
        """
        now = trio.current_time()
        if self.key.member.is_draining:
            return None
        found = [each for each in self.upstreams if not each.is_over and now < each.retires_at and each.shared.can_open]
        least = min(found, key=lambda each: each.places, default=None)
        if least is None or least.places >= self.config.clients_per_upstream:
            return None
        return least

    def _note_leave(self) -> None:
        self._freed.set()

    def add(self, opened: LoggedIn) -> SharedUpstream:
        """Share a connection whose virtual host is open."""
        lifetime = self.config.lifetime * (1 + JITTER * random.uniform(-1, 1))
        upstream = self._shared(opened, self._end, trio.current_time() + lifetime)
        upstream.on_leave = self._note_leave
        self.upstreams.append(upstream)
        self._counts.opened += 1
        return upstream

    def _shared(
        self, opened: LoggedIn, on_end: Callable[[SharedUpstream, str], None], retires_at: float = math.inf
    ) -> SharedUpstream:
        ends = opened.transport.ends()
        leg = SharedLeg(self._legs, "" if ends is None else "-".join(join_address(*each) for each in ends))
        leg.begin(HEADER, opened.login)
        opened.login.clear()
        upstream = SharedUpstream(opened.transport, opened.connection, on_end, retires_at, leg)
        for method in opened.behind:
            upstream.shared.take_on_connection(method)
        if opened.successor is not None:
            upstream.renew(opened.successor)
        self._start(upstream.run)
        upstream.flush()
        return upstream

    async def _open_scout(self) -> SharedUpstream:
        return self._shared(await self._open(self.key), lambda ended, reason: self.scout.note_end())

    # --- ends

    def _end(self, upstream: SharedUpstream, reason: str) -> None:
        """Tell the clients of an upstream that has ended: the one that is the cause by the broker's own words."""
        self.upstreams.remove(upstream)
        self._freed.set()
        close = upstream.shared.closed
        clients = list(upstream.clients)
        culprits: list[SharedClient] = []
        if close is not None and close.failing_class_id:
            suspects = [each for each in clients if each.is_suspect(close)]
            is_publish = (close.failing_class_id, close.failing_method_id) == _PUBLISH
            if len(suspects) == 1 and not (is_publish and upstream.shared.is_left_unsettled):
                culprits = suspects
            self._counts.collateral += len(clients) - len(culprits)
        for client in clients:
            if close is not None and client in culprits:
                client.is_culprit = True
                client.end_by(close)
            else:
                client.lose(f"shared upstream {reason}")

    def lose(self, reason: str) -> None:
        """End all connections of the pool, and their clients'."""
        for upstream in list(self.upstreams):
            for client in list(upstream.clients):
                client.lose(reason)
            upstream.abort()
        if self.scout.upstream is not None:
            self.scout.upstream.abort()

    def renew(self, secret: Secret) -> None:
        """Send the broker the successor of the token with which all connections were opened."""
        for upstream in self.upstreams:
            upstream.renew(secret)
        if self.scout.upstream is not None:
            self.scout.upstream.renew(secret)

    def retire(self) -> None:
        """Take no more clients on these connections, which end when the last one has left."""
        now = trio.current_time()
        self.is_retired = True
        for upstream in self.upstreams:
            upstream.retires_at = min(upstream.retires_at, now)

    def keep(self, now: float) -> None:
        """Close the connections that nobody uses: those that are old, idle or of a member that takes no clients."""
        is_leaving = self.is_retired or self.key.member.is_draining
        for upstream in self.upstreams:
            is_due = is_leaving or now >= upstream.retires_at or now - upstream.idle_since > self.config.idle
            if not upstream.clients and not upstream.shared.channels and is_due:
                upstream.retires_at = now  # at once: nobody may come while it is being closed
                self._start(lambda each=upstream: each.close("the pool does not need the connection"))  # type: ignore[misc]
        scout = self.scout.upstream
        is_idle = now - self.scout.used_at > self.config.idle
        if scout is not None and not self.scout.is_busy and (is_idle or (self.is_retired and not self.upstreams)):
            self.scout.upstream = None
            self._start(lambda: scout.close("the pool does not need the connection"))

    @property
    def connections(self) -> int:
        """The number of upstream connections, the scout's included."""
        return len(self.upstreams) + (self.scout.upstream is not None)

    @property
    def is_empty(self) -> bool:
        """Whether the pool has no connection, opens none, and nobody waits for one."""
        is_open = self.upstreams or self.scout.upstream is not None
        return not (is_open or self.waiting or self._attempts or self.scout.is_busy)
