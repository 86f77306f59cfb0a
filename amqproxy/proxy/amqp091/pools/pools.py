"""All pools of one upstream group, and the logins of their clients."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import trio

from amqproxy.amqp091.errors import AccessRefused, NotAllowed
from amqproxy.amqp091.protocol_header import NAME
from amqproxy.configuration.pool_config import PoolConfig
from amqproxy.proxy.amqp091.login_handshake import Amqp091LoginHandshake
from amqproxy.proxy.amqp091.pools.client_habits import ClientHabits
from amqproxy.proxy.amqp091.pools.credential_trust import CredentialTrust
from amqproxy.proxy.amqp091.pools.own_tokens import OwnTokens
from amqproxy.proxy.amqp091.pools.pool import Pool, PoolKey
from amqproxy.proxy.amqp091.pools.pool_counts import PoolCounts
from amqproxy.proxy.amqp091.pools.pool_login import LoggedIn, log_in
from amqproxy.proxy.amqp091.pools.pooled_transport import PooledTransport
from amqproxy.proxy.amqp091.pools.shared_attempts import SharedAttempts
from amqproxy.proxy.amqp091.pools.sharing import PinReason
from amqproxy.proxy.amqp091.pools.spare_connections import SpareConnections
from amqproxy.proxy.logins.attempt import Identity, LoginAttempt, LoginDenied
from amqproxy.proxy.logins.credential import Credential, CredentialSource
from amqproxy.proxy.logins.handshake import BrokerRefused, ClosedByBroker
from amqproxy.proxy.logins.login_check import Login
from amqproxy.proxy.upstream import Unreachable
from amqproxy.proxy.upstreams.client_pools import LOGIN_TIMEOUT, Connect, Leased, Pinning
from amqproxy.proxy.upstreams.member import Member
from amqproxy.rules.context import Client
from amqproxy.sockets.transport import Transport, TransportBroken
from amqproxy.taps.pool_metrics import PoolSizes
from amqproxy.taps.shared_legs import SharedLegs

_NOT_BY_HABIT = (PinReason.HABIT, PinReason.QUARANTINE, PinReason.MANY_CHANNELS, PinReason.HARD_ERROR)
"""Reasons for pins that do not show what a client usually does."""

AHEAD = 0.5
"""Part of `trust` after which the broker is asked again, while clients are still accepted at once."""


class Pools:
    """The pools of the upstream group `name`.

    It is also the check of logins of clients that do not log in at the proxy itself: the broker decides.
    """

    PROTOCOL = NAME

    mechanisms = ("PLAIN", "AMQPLAIN")
    passwords_need_tls = False
    certificate_login = "common_name"

    def admits_anonymous(self, address: str) -> bool:
        return False

    def __init__(self, name: str, config: PoolConfig) -> None:
        self.name = name
        self.config = config
        self.login = Login(self)
        self._tokens = OwnTokens(self._renew)
        self.trust = CredentialTrust(trio.current_time)
        self._spares = SpareConnections(trio.current_time)
        self.counts = PoolCounts()
        self.pools: dict[PoolKey, Pool] = {}
        self.connect: Connect | None = None
        self.legs = SharedLegs()
        self.start: Callable[[Callable[[], Awaitable[object]]], None] = lambda function: None
        self._habits = ClientHabits(trio.current_time)
        self._attempts = SharedAttempts(lambda function: self.start(function))
        self._opening = 0
        self._verifying: set[Pool] = set()
        self._is_retired = False

    def apply(self, config: PoolConfig, source: CredentialSource | None) -> None:
        """Apply a configuration, and the proxy's own credentials."""
        self.config, self._tokens.source = config, source

    @property
    def source(self) -> CredentialSource | None:
        """The proxy's own credentials, if there are any; tokens are renewed on the connections that they opened."""
        return self._tokens.source

    def _renew(self, credential: Credential) -> None:
        digest = self.trust.digest(credential)
        for key, pool in self.pools.items():
            if (key.credential, key.user) == (digest, credential.user):
                pool.renew(credential.password)

    # --- logins

    async def check(self, attempt: LoginAttempt) -> Identity:
        """Return the identity of a client that the broker accepts; raise `LoginDenied`, `Unreachable` or another error
        of the connection.
        """
        credential = Credential(attempt.user, attempt.password)
        digest = self.trust.digest(credential)
        if not self.trust.holds(digest):
            await self._attempts.outcome(digest, lambda: self._verify(credential, digest, attempt.client))
        return Identity(attempt.user, "broker", credential=credential)

    async def check_vhost(self, identity: Identity, vhost: str, address: str) -> bool:
        """Return `True`: the broker is asked when the virtual host is opened."""
        return True

    async def _verify(self, credential: Credential, digest: bytes, client: Client) -> None:
        """Log in at a broker, and keep the connection for the client."""
        assert self.connect is not None
        try:
            member, logged_in = await self._log_in(self.connect.candidates(client), credential)
        except BrokerRefused as error:
            raise LoginDenied(str(error), source="broker") from None
        except ClosedByBroker as error:
            if error.code != AccessRefused.code:  # it may refuse everybody, such as when it shuts down
                raise Unreachable("no answer", f"the broker has refused the login: {error}") from None
            self.revoke(digest)
            raise LoginDenied(str(error), source="broker") from None
        self.trust.accept(digest, self.config.trust)
        self._spares.keep(digest, member, logged_in)

    async def _log_in(
        self, members: list[Member], credential: Credential, vhost: str | None = None
    ) -> tuple[Member, LoggedIn]:
        """Log in to the first member that can be reached, and open a virtual host there, if one is given."""
        assert self.connect is not None
        found: list[LoggedIn] = []

        async def login(transport: Transport, answer: bytes) -> bytes:
            try:
                found.append(await log_in(transport, answer, credential, self.login.offer(self.PROTOCOL)))
            except TransportBroken as error:  # as RabbitMQ refuses some logins: no failure of the member
                raise BrokerRefused(f"it has closed the connection during the login: {error}") from None
            if vhost is not None:
                await _open_vhost(found[-1], vhost)
            return b""

        reached = await self.connect.reach(members, login)
        assert reached.member is not None
        reached.member.note_disconnected()  # members count the clients
        return reached.member, found[-1]

    def revoke(self, digest: bytes) -> None:
        """End what was opened with a credential that the broker no longer accepts."""
        self.trust.withdraw(digest)
        for pool in list(self.pools.values()):
            if pool.key.credential == digest:
                self.counts.revoked += 1
                pool.lose("the broker no longer accepts the credentials")

    # --- places

    async def lease(
        self,
        client: Client,
        credential: Credential,
        handshake: Amqp091LoginHandshake,
        pinning: Pinning,
    ) -> Leased:
        """Return a place for a client that opens its virtual host, with the answer to it, and the member.

        Raises `ClosedByBroker` if the broker refuses, `NotAllowed` if the pool is exhausted, `Unreachable`, or
        `TransportBroken`.
        """
        digest = self.trust.digest(credential)
        pool = await self._pool(client, credential, digest)
        upstream = await pool.place()
        must_pin = self._habits.must_pin(client)
        answer = handshake.open_ok()
        transport = PooledTransport(
            upstream,
            pool.key.member,
            pool.scout,
            self.config,
            handshake.client,
            pinning,
            lambda reason: self._note_pin(pool, reason),
            announces_blocking=client.announced("connection.blocked"),
            must_pin=must_pin,
            on_leave=lambda left: self._note_leave(client, pool, left),
        )
        self.counts.clients += 1
        return Leased(transport, answer, pool.key.member)

    async def _pool(self, client: Client, credential: Credential, digest: bytes) -> Pool:
        """Return the pool for a client, to which the broker has given access within `trust`."""
        assert self.connect is not None
        renewals = self._tokens.renewals
        members = self.connect.candidates(client)
        pool = self._fresh_pool(members, client.vhost, credential, digest)
        if pool is not None:
            self._verify_ahead(pool, credential, digest)
            return pool
        opened: Pool = await self._attempts.outcome(
            (digest, client.vhost, *members[:1]),
            lambda: self._opened_pool(members, client.vhost, credential, digest, renewals),
        )
        return opened

    def _known_pool(self, members: list[Member], vhost: str, credential: Credential, digest: bytes) -> Pool | None:
        """Return the pool of the first member."""
        return self.pools.get(PoolKey(members[0], vhost, credential.user, digest)) if members else None

    def _fresh_pool(self, members: list[Member], vhost: str, credential: Credential, digest: bytes) -> Pool | None:
        """Return the pool of the first member, if the broker has given access to it within `trust`."""
        pool = self._known_pool(members, vhost, credential, digest)
        return pool if pool is not None and self._is_fresh(pool) else None

    def _verify_ahead(self, pool: Pool, credential: Credential, digest: bytes) -> None:
        """Ask the broker again before the pool's trust ends, so that no client waits for it; one request at a time."""
        renewals = self._tokens.renewals
        if pool in self._verifying or trio.current_time() < pool.verified_at + AHEAD * self.config.trust:
            return

        async def verify() -> None:
            try:
                with suppress(ClosedByBroker, BrokerRefused, Unreachable, TransportBroken):
                    await self._opened_pool([pool.key.member], pool.key.vhost, credential, digest, renewals)
            finally:
                self._verifying.discard(pool)

        self._verifying.add(pool)
        self.start(verify)

    def _is_fresh(self, pool: Pool) -> bool:
        return trio.current_time() < pool.verified_at + self.config.trust

    async def _opened_pool(
        self, members: list[Member], vhost: str, credential: Credential, digest: bytes, renewals: int
    ) -> Pool:
        """Open the virtual host anew; return its pool. `renewals` is how many the credential has seen."""
        self._opening += 1
        try:
            member, logged_in = await self._opened_vhost(members, vhost, credential, digest)
        except ClosedByBroker as error:
            pool = self._known_pool(members, vhost, credential, digest)
            if error.code == AccessRefused.code:
                self.revoke(digest)
            elif error.code != NotAllowed.code:  # it may refuse everybody, such as when it shuts down
                raise Unreachable("no answer", f"the broker has refused a connection: {error}") from None
            elif not _is_limit(error):
                self._revoke_vhost(pool)
            elif pool is not None and pool.upstreams:  # which has accepted the login all the same
                pool.verified_at = trio.current_time()
                return pool
            raise
        finally:
            self._opening -= 1
        self.trust.accept(digest, self.config.trust)
        self._tokens.catch_up(logged_in, credential, renewals)
        member.note_open()
        key = PoolKey(member, vhost, credential.user, digest)
        pool = self.pools.get(key)
        if pool is None:
            pool = self.pools[key] = Pool(
                key,
                self.config,
                lambda key: self._open(key, credential),
                self._has_room,
                self.start,
                self.counts,
                self.legs,
            )
        pool.verified_at = trio.current_time()
        if not pool.upstreams and self._has_room():
            pool.add(logged_in)
        else:
            self.start(lambda: logged_in.close())
        return pool

    async def _opened_vhost(
        self, members: list[Member], vhost: str, credential: Credential, digest: bytes
    ) -> tuple[Member, LoggedIn]:
        """Open a virtual host on the connection that has checked the login, else on a new one."""
        spare = self._spares.take(digest)
        if spare is not None:
            # the broker may have closed it meanwhile, or not answer any more
            with suppress(Unreachable), trio.move_on_after(LOGIN_TIMEOUT):
                await _open_vhost(spare.logged_in, vhost)
                return spare.member, spare.logged_in
        return await self._log_in(members, credential, vhost)

    def _revoke_vhost(self, pool: Pool | None) -> None:
        """End a pool to whose virtual host its member gives no access any more."""
        if pool is not None:
            self.counts.revoked += 1
            pool.lose("the broker no longer grants access to the virtual host")

    async def _open(self, key: PoolKey, credential: Credential) -> LoggedIn:
        """Open another connection of a pool."""
        renewals = self._tokens.renewals
        self._opening += 1
        try:
            if credential.is_token and self.source is not None:
                credential = await self.source.current()
            _, logged_in = await self._log_in([key.member], credential, key.vhost)
            self._tokens.catch_up(logged_in, credential, renewals)
            key.member.note_open()
            return logged_in
        finally:
            self._opening -= 1

    def _has_room(self) -> bool:
        """Whether another connection may be opened, for any pool."""
        return sum(each.connections for each in self.pools.values()) + self._opening < self.config.total

    def _note_pin(self, pool: Pool, reason: PinReason) -> None:
        pool.pinned += 1
        self.counts.pins[reason] += 1

    def _note_leave(self, client: Client, pool: Pool, transport: PooledTransport) -> None:
        self.counts.clients -= 1
        pinned = transport.pinned
        if pinned not in _NOT_BY_HABIT:
            self._habits.note_connection(client, was_pinned=pinned is not None)
        if transport.is_culprit:
            self._habits.quarantine(client, self.config.quarantine)

    # --- upkeep

    def retire(self) -> None:
        """Take no more clients on any connection, since a reload has removed the pools."""
        self._tokens.source = None
        self._is_retired = True
        for pool in self.pools.values():
            pool.retire()

    def keep(self) -> None:
        """Close what is not needed any more; called every second."""
        now = trio.current_time()
        for key, pool in list(self.pools.items()):
            pool.config = self.config
            pool.is_retired = self._is_retired  # also if it has been opened since for a client that had come before
            pool.keep(now)
            if pool.is_empty and not self._is_fresh(pool):
                del self.pools[key]
        self.trust.expire()
        for spare in self._spares.expired():
            self.start(spare.logged_in.close)

    @property
    def is_empty(self) -> bool:
        """Whether no connection is open, or being opened."""
        return not (self.pools or self._spares or self._opening or self._attempts)

    def sizes(self) -> PoolSizes:
        """Return the sizes of all pools together."""
        pools = list(self.pools.values())  # a scrape calls this in its own thread
        upstreams = [upstream for pool in pools for upstream in pool.upstreams]
        return PoolSizes(
            len(upstreams), sum(each.waiting for each in pools), sum(each.left_bytes for each in upstreams)
        )

    def report(self) -> list[dict[str, Any]]:
        """Return the pools as `control pools` shows them."""
        now = trio.current_time()
        return [
            {
                "upstream": self.name,
                "member": key.member.address,
                "vhost": key.vhost,
                "user": key.user,
                "connections": pool.connections,
                "clients": sum(len(each.clients) for each in pool.upstreams),
                "pinned": pool.pinned,
                "channels": sum(each.shared.channels for each in pool.upstreams),
                "waiting": pool.waiting,
                "left_bytes": sum(each.left_bytes for each in pool.upstreams),
                "blocked": sum(each.shared.blocked_for is not None for each in pool.upstreams),
                "verified": round(now - pool.verified_at, 1),
            }
            for key, pool in self.pools.items()
        ]


async def _open_vhost(logged_in: LoggedIn, vhost: str) -> None:
    """Open a virtual host; raise `ClosedByBroker` or `Unreachable` with the connection closed."""
    try:
        await logged_in.open(vhost)
    except BaseException as error:
        await logged_in.transport.reset()
        if isinstance(error, TransportBroken):
            raise Unreachable("no answer", f"the broker hung up during the login: {error}") from None
        raise


def _is_limit(error: ClosedByBroker) -> bool:
    """Whether the broker has refused a virtual host for the number of connections, not for the user."""
    return error.reply_text.endswith("is reached")
