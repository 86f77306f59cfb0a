"""All upstream groups of a proxy, and the connections of clients to their members."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from functools import partial

import trio

from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.process.log import logger
from amqproxy.proxy.admission_queue import AdmissionQueue, QueueFull
from amqproxy.proxy.admissions import await_turn
from amqproxy.proxy.logins.client_network import client_network
from amqproxy.proxy.upstream import MAIN, Unreachable
from amqproxy.proxy.upstreams.client_pools import LOGIN_TIMEOUT, ClientPools, Connect
from amqproxy.proxy.upstreams.group import MemberEvent, UpstreamGroup
from amqproxy.proxy.upstreams.member import Member, Standing
from amqproxy.proxy.upstreams.reach import BrokerLogin, MemberLogin, Reach, Reached, Unhurried, logged_in
from amqproxy.proxy.upstreams.routes import Routes
from amqproxy.rules.context import Client
from amqproxy.sockets.transport import Address, Transport, TransportBroken
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.shared_legs import SharedLegs

KEEP_INTERVAL = 1.0
"""Seconds between two looks at the pools."""


class Upstreams:
    """All groups that clients may be routed to, and the connections to their members.

    Failures of members that another one makes up for are counted in `metrics`.
    """

    def __init__(self, routes: Routes, metrics: Metrics) -> None:
        self.apply(routes)
        self.divert: Callable[[UpstreamGroup, Client], UpstreamGroup] = lambda group, client: group
        """Returns the group that takes a client in place of its route's: the seam for switches."""
        self.start: Callable[[Callable[[], Awaitable[object]]], None] = lambda function: None
        """Runs a task in the background."""
        self.shared_legs = SharedLegs()
        """Connections that clients share, as they are shown to a recorder."""
        self._metrics = metrics
        metrics.count_upstreams(lambda: self.groups)

    @classmethod
    def of(cls, dial: Callable[[], Awaitable[Transport]], metrics: Metrics, address: str = "") -> Upstreams:
        """Return one group with one member, which `dial` connects to."""
        member = Member(address, lambda ends: dial())
        return cls(Routes(UpstreamGroup(MAIN, [member], clock=loop_clock())), metrics)

    @property
    def groups(self) -> list[UpstreamGroup]:
        """All groups, the default one first."""
        return self.routes.groups

    @property
    def address(self) -> str:
        """The address of the only member of all groups; "" if there are several."""
        addresses = {member.address for group in self.groups for member in group.members}
        return addresses.pop() if len(addresses) == 1 else ""

    @property
    def description(self) -> str:
        """The only member's address, or the names of the groups."""
        return self.address or ", ".join(group.name for group in self.groups)

    def apply(self, routes: Routes) -> None:
        """Replace the routes, for new clients."""
        self.routes = routes
        for group in self.groups:
            if group.pools is not None:
                group.pools.apply(group.pool_config, group.login)

    def dial_of_member(self, address: str) -> Callable[[], Awaitable[Transport]] | None:
        """Return the dial of the member at an address, for connections of the proxy itself."""
        for group in self.groups:
            member = group.member(address)
            if member is not None:
                dial: Callable[[], Awaitable[Transport]] = partial(member.dial, None)
                return dial
        return None

    def is_ready(self) -> bool:
        """Whether any member of any group can take a client; other threads may call this."""
        return any(group.takes_clients(group.clock()) for group in self.groups)

    def reach_for(self, ends: tuple[Address, Address], listener: str, is_gone: Callable[[], bool]) -> Reach:
        """Return the `Reach` of a client of a listener, as the configuration names it.

        `ends` are the client's address and the listener's, for the PROXY protocol; `is_gone` is whether the client has
        hung up, so that no further member is tried for it.
        """
        return partial(self._reach, ends, listener, is_gone)

    # --- connections that clients share

    @property
    def have_pools(self) -> bool:
        return any(group.pools is not None for group in self.groups)

    def pools_for(self, listener: str, client: Client) -> ClientPools | None:
        """Return the pools of the group that takes a client of a listener, if it has any."""
        group = self.divert(self.routes.group_for(client, listener), client)
        pools: ClientPools | None = group.pools
        if pools is not None:
            self._lend(group, pools)
        return pools

    async def keep_pools(self) -> None:
        """Keep the pools of all groups until cancelled."""
        kept: set[ClientPools] = set()
        while True:
            current: set[ClientPools] = {group.pools for group in self.groups if group.pools is not None}
            for removed in kept - current:
                removed.retire()
            kept = current | {each for each in kept if not each.is_empty}
            for each in kept:
                each.keep()
            await trio.sleep(KEEP_INTERVAL)

    def _lend(self, group: UpstreamGroup, pools: ClientPools) -> None:
        """Give pools access to the brokers of their group, which a reload may have replaced."""
        pools.connect = Connect(
            lambda client: group.candidates(trio.current_time(), group.key_of(client)),
            partial(self._reach_for_pools, group),
        )
        pools.start, pools.legs = self.start, self.shared_legs

    async def _reach_for_pools(self, group: UpstreamGroup, members: list[Member], log_in: MemberLogin) -> Reached:
        """Connect to the first of these members, in turn with the logins of clients."""
        if group.logins is not None:
            try:
                await _admitted(group, group.logins, "pool", lambda: False, nullcontext)
            except QueueFull:
                raise Unreachable("queue full", f"{group.name} has too many logins that wait") from None
        return await self._reach_first(group, None, lambda: False, HEADER, members, log_in, LOGIN_TIMEOUT)

    async def _reach(
        self,
        ends: tuple[Address, Address],
        listener: str,
        is_gone: Callable[[], bool],
        header: bytes,
        client: Client,
        unhurried: Unhurried,
        login: BrokerLogin | None = None,
        member: Member | None = None,
    ) -> Reached:
        """Connect a client to a member of its group, in its turn."""
        group = self.divert(self.routes.group_for(client, listener), client)
        came = trio.current_time()
        if group.logins is not None:
            await _admitted(group, group.logins, client_network(client.address), is_gone, unhurried)
        waited = trio.current_time() - came
        log_in = None if login is None else await login(group.login)
        candidates = [member] if member is not None else group.candidates(trio.current_time(), group.key_of(client))
        reached = await self._reach_first(group, ends, is_gone, header, candidates, log_in)
        return reached._replace(waited=waited)

    async def _reach_first(
        self,
        group: UpstreamGroup,
        ends: tuple[Address, Address] | None,
        is_gone: Callable[[], bool],
        header: bytes,
        candidates: list[Member],
        log_in: MemberLogin | None,
        patience: float = math.inf,
    ) -> Reached:
        """Connect to the first member that answers the protocol header; raise `Unreachable` if none does.

        A member has its group's `connect_timeout` to answer; the last one has the rest of the client's handshake. No
        member has more than `patience` seconds for its answer and the login together.
        Without a header, the first member that accepts takes the client; with a login, the first that opens its
        virtual host, or refuses it.
        """
        failed: Unreachable | None = None
        for place, member in enumerate(candidates):
            if failed is not None:
                if is_gone():
                    break
                self._metrics.upstream_failures.labels(failed.kind).inc()
                candidates[place - 1].retries += 1
            began = trio.current_time()
            timeout = group.connect_timeout if place + 1 < len(candidates) else math.inf
            try:
                transport, answer = await _answered(member, ends, header, min(timeout, patience))
                if log_in is not None:
                    answer = await _logged_in(member, log_in, transport, answer, began + patience)
            except Unreachable as error:
                failed = error
                group.note_failure(member, error.kind, str(error), trio.current_time())
                continue
            except trio.Cancelled:
                if trio.current_time() - began >= group.connect_timeout:
                    text = f"{member.address} has not answered the protocol header"
                    group.note_failure(member, "no answer", text, trio.current_time())
                raise
            member.note_connected(trio.current_time() - began)
            if not header:
                member.note_open()  # nothing will tell
            return Reached(transport, answer, member, group.name)
        if failed is None:
            failed = Unreachable("unreachable", f"{group.name} has no member that takes clients")
        failed.upstream = group.name
        raise failed


async def _admitted(
    group: UpstreamGroup, logins: AdmissionQueue, address: str, is_gone: Callable[[], bool], unhurried: Unhurried
) -> None:
    """Wait for a client's turn to log in to a group.

    A client that has hung up meanwhile gives its turn to the next.
    """
    now = trio.current_time()
    if logins.admits(now, max(1, group.width(now))):
        return
    with unhurried():
        await await_turn(logins, address, lambda: group.width(trio.current_time()), is_gone)


async def _answered(
    member: Member, ends: tuple[Address, Address] | None, header: bytes, timeout: float
) -> tuple[Transport, bytes]:
    """Connect to a member, send it the header, and return the transport with the broker's first bytes."""
    opened: list[Transport] = []
    try:
        with trio.fail_after(timeout):
            transport = await member.dial(ends)
            opened.append(transport)
            if not header:
                return transport, b""
            await transport.send(header)
            answer = await transport.receive()
        if not answer:
            raise Unreachable("no answer", f"{member.address} hung up without an answer to the protocol header")
    except BaseException as error:
        for each in opened:
            await each.reset()
        if isinstance(error, trio.TooSlowError):
            kind, what = ("no answer", "answer") if opened else ("timeout", "accept")
            raise Unreachable(kind, f"{member.address} did not {what} within {timeout:g} s") from None
        if isinstance(error, TransportBroken):
            raise Unreachable("no answer", f"{member.address} hung up: {error}") from None
        raise
    return transport, answer


async def _logged_in(
    member: Member, log_in: MemberLogin, transport: Transport, answer: bytes, deadline: float
) -> bytes:
    """Log in to a member until a deadline; return its answer to connection.open."""
    try:
        with trio.fail_at(deadline):
            return await logged_in(transport, log_in(transport, answer))
    except trio.TooSlowError:
        raise Unreachable("no answer", f"{member.address} did not complete the login in time") from None


def loop_clock() -> Callable[[], float]:
    """Return the event loop's clock for all threads, since trio's own can be read only in the loop's thread."""
    ahead = trio.current_time() - time.perf_counter()
    return lambda: time.perf_counter() + ahead


def log_event(group: UpstreamGroup, event: MemberEvent) -> None:
    """Log a change of a member."""
    is_good = event.standing in (Standing.UP, Standing.STARTING)
    log = logger().info if is_good else logger().warning
    log(
        "upstream member",
        upstream=group.name,
        member=event.member.address,
        state=str(event.standing),
        reason=event.reason,
    )
