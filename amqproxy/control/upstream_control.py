"""The upstream groups as an operator sees them, and what an operator may ask of their members."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from amqproxy.control.dialects import Entry
from amqproxy.control.request import (
    DrainUpstream,
    EjectUpstream,
    ListUpstreams,
    RebalanceUpstream,
    RestoreUpstream,
    WeighUpstream,
)
from amqproxy.control.request_error import RequestError
from amqproxy.process.log import logger
from amqproxy.proxy.client_moves import ClientMoves
from amqproxy.proxy.upstreams.group import UpstreamGroup
from amqproxy.proxy.upstreams.member import Member
from amqproxy.proxy.upstreams.upstreams import Upstreams

UpstreamRequest = ListUpstreams | DrainUpstream | EjectUpstream | RestoreUpstream | WeighUpstream | RebalanceUpstream


Renewals = Callable[[str], Mapping[str, int] | None]
"""Number of requests for a token by outcome, by the name of an upstream; `None` where the proxy needs none."""


class UpstreamControl:
    """Lists and changes of the members of `upstreams`; `moves` moves their clients."""

    def __init__(self, upstreams: Upstreams, moves: ClientMoves, renewals: Renewals = lambda name: None) -> None:
        self._upstreams = upstreams
        self._moves = moves
        self._renewals = renewals

    def entries(self, now: float) -> Iterator[Entry]:
        """Yield an entry for each member."""
        for group in self._upstreams.groups:
            for member in group.members:
                yield self._entry(group, member, now)

    def pools(self) -> Iterator[Entry]:
        """Yield an entry for each pool of connections that clients share."""
        for group in self._upstreams.groups:
            if group.pools is not None:
                yield from group.pools.report()

    def change(self, request: UpstreamRequest, now: float) -> dict[str, Any]:
        """Carry out a request, and return the response; raise `RequestError` if there is no such member."""
        if isinstance(request, RebalanceUpstream):
            group = self._group(request.upstream)
            surplus = group.surplus(now, 0.0)
            self._moves.rebalance(group, request.rate)
            logger().info("upstream rebalanced by an operator", upstream=group.name, rate=request.rate)
            return {"upstream": group.name, "surplus": sum(surplus.values())}
        assert not isinstance(request, ListUpstreams)
        group, member = self._member(request.member, request.upstream)
        match request:
            case DrainUpstream():
                self._moves.drain(member, request.rate)
            case EjectUpstream():
                group.eject(member, now, "an operator's request", request.seconds)
            case RestoreUpstream():
                member.readmit(now)
            case WeighUpstream():
                member.weight = request.weight
        what = type(request).__struct_config__.tag
        logger().info("upstream changed by an operator", upstream=group.name, member=member.address, request=what)
        return {"upstream": self._entry(group, member, now)}

    def _entry(self, group: UpstreamGroup, member: Member, now: float) -> Entry:
        return {**member_entry(group, member, now), "token_renewals": self._renewals(group.name)}

    def _group(self, name: str) -> UpstreamGroup:
        found = next((group for group in self._upstreams.groups if group.name == name), None)
        if found is None:
            names = ", ".join(group.name for group in self._upstreams.groups)
            raise RequestError("no-upstream", f"there is no upstream `{name}`: there are {names}")
        return found

    def _member(self, address: str, name: str | None) -> tuple[UpstreamGroup, Member]:
        """Return the member at an address, of the group of this name if one is given."""
        groups = self._upstreams.groups if name is None else [self._group(name)]
        found = [(group, member) for group in groups if (member := group.member(address)) is not None]
        if not found:
            raise RequestError("no-upstream", f"there is no member {address}: `upstreams` lists them")
        if len(found) > 1:
            names = ", ".join(group.name for group, _ in found)
            raise RequestError("no-upstream", f"{address} is a member of {names}: name one of them as `upstream`")
        return found[0]


def member_entry(group: UpstreamGroup, member: Member, now: float) -> Entry:
    """Return a member's entry; `ejected_for` is in seconds, `connect_seconds` an average."""
    return {
        "upstream": group.name,
        "member": member.address,
        "state": str(member.standing(now)),
        "weight": member.weight,
        "share": round(member.share(now), 3),
        "priority": member.priority,
        "zone": member.zone,
        "connections": member.connections,
        "blocked": member.blocked,
        "clients": member.picks,
        "failures": sum(member.failures_by_kind.values()),
        "retries": member.retries,
        "ejections": member.ejections,
        "ejected_for": round(max(0.0, member.ejected_until - now), 1),
        "connect_seconds": member.connect_seconds / member.picks if member.picks else None,
        "tls_handshakes": member.tls_handshakes,
        "last_failure": member.last_failure,
        "in_panic": group.is_panicking(now),
        "login_queue": 0 if group.logins is None else len(group.logins),
    }
