"""A group of brokers of which one takes each client: the ranks of its members, and the bounds of ejection.

Pure: times are arguments, `random` draws from [0, 1); only lists and metrics read the `clock`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from amqproxy.configuration.upstream_config import Ejection, HealthCheck
from amqproxy.proxy.admission_queue import AdmissionQueue
from amqproxy.proxy.logins.credential import CredentialSource
from amqproxy.proxy.upstreams.member import TAKES_CLIENTS, Member, Standing
from amqproxy.proxy.upstreams.selection import SELECTIONS
from amqproxy.rules.context import Client

JITTER = 0.25
"""Largest random extension of an ejection, as a part of it: members ejected together do not return together."""

MOST_EJECTED = 0.5
"""Largest part of a group that may be left out: beyond it, the fault is not the members' own (Envoy's panic mode)."""


class MemberEvent(NamedTuple):
    """Reported change of a member: its new `standing`, and the reason."""

    member: Member
    standing: Standing
    reason: str


class UpstreamGroup:
    """The members of the group `name`, and the choice among them.

    Members of the proxy's own `zone` come first, if it has one. A member has `connect_timeout` seconds to answer if
    another one is left to try. `rebalance_rate` is how many clients a second move while members have more than their
    shares. `names` are host names that are looked up, and what makes a member of one of their addresses. `on_event`
    is called when a member is ejected, goes down or comes up. `hash_by` is the fact about a client that is hashed;
    `logins` limits the rate of logins to each member, if there is a limit.
    """

    def __init__(
        self,
        name: str,
        members: Iterable[Member],
        *,
        selection: str = "round_robin",
        hash_by: str = "address",
        zone: str = "",
        ejection: Ejection | None = None,
        check: HealthCheck | None = None,
        connect_timeout: float = 10.0,
        rebalance_rate: float = 0.0,
        logins: AdmissionQueue | None = None,
        names: Mapping[str, Callable[[str], Member]] | None = None,
        resolve_interval: float = 10.0,
        random: Callable[[], float] = lambda: 0.0,
        clock: Callable[[], float] = lambda: 0.0,
        on_event: Callable[[UpstreamGroup, MemberEvent], None] = lambda group, event: None,
    ) -> None:
        self.name = name
        self.members: list[Member] = []
        self._take_in(members)
        self.selection = selection
        self.hash_by = hash_by
        self.login: CredentialSource | None = None
        """The credentials for clients that have logged in at the proxy."""
        self.pools: Any = None
        """The `ClientPools` of the group, if its clients share connections; they do input and output."""
        self.pool_config: Any = None
        """The configuration of the pools."""
        self.zone = zone
        self.ejection = ejection or Ejection()
        self.check = check
        self.rebalance_rate = rebalance_rate
        self.logins = logins
        self.names = dict(names or {})
        self.resolve_interval = resolve_interval
        self.connect_timeout = connect_timeout
        self.on_event = on_event
        self._random = random
        self.clock = clock

    def _take_in(self, members: Iterable[Member]) -> None:
        self.members = list(members)
        for member in self.members:
            member.group = self

    # --- choice

    def candidates(self, now: float, key: str = "") -> list[Member]:
        """Return the members in the order in which they are tried for a client with this key.

        Healthy ones come first; those that are blocked, ejected or down are the last resort. Draining ones, and those
        with a weight of 0, take no client. While more members fail than may be ejected, ejections are disregarded.
        """
        ranks = self._ranks(now)
        order = SELECTIONS[self.selection]
        return [member for rank in sorted(ranks) for member in order(ranks[rank], now, key)]

    def width(self, now: float) -> int:
        """Return the number of members among which new clients are divided at present."""
        ranks = self._ranks(now)
        return len(ranks[min(ranks)]) if ranks else 0

    def _ranks(self, now: float) -> dict[tuple[int, int, bool], list[Member]]:
        """Return the members that may take clients by their ranks, of which the lowest is tried first."""
        in_panic = self.is_panicking(now)
        ranks: dict[tuple[int, int, bool], list[Member]] = {}
        for member in self.members:
            standing = member.standing(now)
            if standing is Standing.DRAINING or not member.weight:
                continue
            if in_panic and standing is Standing.EJECTED:
                standing = Standing.UP
            rank = (_LAST_RESORT.get(standing, int(bool(member.blocked))), member.priority, self._is_far(member))
            ranks.setdefault(rank, []).append(member)
        return ranks

    def key_of(self, client: Client) -> str:
        """Return the client's key for the hash."""
        return str(getattr(client, self.hash_by))

    def _is_far(self, member: Member) -> bool:
        return bool(self.zone) and member.zone != self.zone

    def takes_clients(self, now: float) -> bool:
        """Whether any member can take a client: one that is neither draining nor down."""
        return any(
            member.weight and member.standing(now) not in (Standing.DRAINING, Standing.DOWN) for member in self.members
        )

    def is_panicking(self, now: float) -> bool:
        """Whether at least as many members fail as may be left out."""
        usable = [member for member in self.members if not member.is_draining]
        failing = [
            member
            for member in usable
            if member.standing(now) not in TAKES_CLIENTS or member.failures >= self.ejection.failures
        ]
        return len(failing) > len(usable) * MOST_EJECTED

    # --- health

    def note_failure(self, member: Member, kind: str, text: str, now: float) -> None:
        """Count a failure of a member, and eject it after too many in a row, unless too many are out already."""
        member.note_failure(kind, text)
        if member.failures < self.ejection.failures or member.standing(now) not in TAKES_CLIENTS:
            return
        out = sum(each.standing(now) not in TAKES_CLIENTS for each in self.members if not each.is_draining)
        usable = sum(not each.is_draining for each in self.members)
        if out + 1 > usable * MOST_EJECTED:
            return
        self.eject(member, now, f"{member.failures} failures in a row: {text}")

    def eject(self, member: Member, now: float, reason: str, seconds: float | None = None) -> None:
        """Leave a member out: for `seconds`, or for a time that doubles with each ejection that follows soon."""
        if seconds is None:
            if now - member.ejected_until > self.ejection.most:
                member.streak = 0
            lasting = min(self.ejection.time * 2.0 ** min(member.streak, 32), self.ejection.most)
            seconds = lasting * (1 + JITTER * self._random())
        member.eject(now, seconds)
        self.on_event(self, MemberEvent(member, Standing.EJECTED, f"for {seconds:.0f} s after {reason}"))

    def note_check(self, member: Member, now: float, fault: str, *, fall: int, rise: int) -> bool:
        """Count the result of an active check, which is passed if there is no `fault`; return whether it changes the
        member's standing.
        """
        if fault:
            member.last_failure = fault
        if not member.note_check(now, passed=not fault, fall=fall, rise=rise):
            return False
        reason = f"{fall} checks failed: {fault}" if fault else f"{rise} checks passed"
        self.on_event(self, MemberEvent(member, member.standing(now), reason))
        return True

    # --- addresses

    def resolve(self, name: str, addresses: Iterable[str]) -> bool:
        """Make the addresses of a name the members that are there for it; return whether any came or went.

        Members that go keep their present clients.
        """
        known = {member.address: member for member in self.members if member.origin == name}
        wanted = sorted(set(addresses))
        if sorted(known) == wanted:
            return False
        others = [member for member in self.members if member.origin != name]
        self._take_in([*others, *(known.get(address) or self.names[name](address) for address in wanted)])
        return True

    # --- balance of the present clients

    def surplus(self, now: float, skew: float) -> dict[Member, int]:
        """Return how many clients of each member would have to move for none to exceed its share by more than `skew`.

        Members that drain or are down have no share; the shares are 0 for all if no member takes clients.
        """
        total = sum(member.connections for member in self.members)
        shares = {
            member: member.share(now) if member.standing(now) in TAKES_CLIENTS else 0.0 for member in self.members
        }
        whole = sum(shares.values())
        if not whole:
            return {}
        found = {}
        for member, share in shares.items():
            most = math.ceil(total * share / whole * (1 + skew))
            if member.connections > most:
                found[member] = member.connections - most
        return found

    # --- for lists and metrics

    def states(self) -> list[tuple[Member, str]]:
        """Return the members, each with its present standing; a scrape calls this in its own thread."""
        now = self.clock()
        return [(member, str(member.standing(now))) for member in self.members]

    @property
    def is_in_panic(self) -> bool:
        """Whether more members fail at present than may be left out."""
        return self.is_panicking(self.clock())

    def has_refuge(self, member: Member) -> bool:
        """Whether the clients of a member that fails its checks would find another one that has passed one since.

        If all begin to fail together, the network fails, or this proxy, and its clients are better left alone.
        """
        return any(
            each.weight and not each.is_draining and not each.is_down and each.passed_at > member.failing_since
            for each in self.members
            if each is not member
        )

    def member(self, address: str) -> Member | None:
        """Return the member at an address."""
        return next((member for member in self.members if member.address == address), None)


_LAST_RESORT = {Standing.EJECTED: 2, Standing.DOWN: 3}
"""Ranks of members that should not be used, behind those that are up, and those that are up but blocked."""
