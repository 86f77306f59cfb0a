"""Moves of present clients to other members of their upstream groups: they are told 320, and reconnect."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import trio

from amqproxy.amqp091.errors import ConnectionForced
from amqproxy.peer import SERVER
from amqproxy.process.log import logger
from amqproxy.proxy.session.session import Session
from amqproxy.proxy.sessions import for_each
from amqproxy.proxy.upstreams.group import UpstreamGroup
from amqproxy.proxy.upstreams.member import Member

INTERVAL = 1.0
"""Seconds between two moves of some clients."""

SKEW = 0.1
"""Part of its share by which a member may exceed it, before its clients are moved."""

SESSIONS_A_TURN = 20
"""Sessions that are ended in one turn of the loop."""

MOVED = ConnectionForced("moved to another broker: please reconnect")


class ClientMoves:
    """Moves clients of `sessions` among the members of the groups that `groups` returns.

    Clients of a draining member move at the rate with which an operator asked for it; those of members with more than
    their share move at the group's `rebalance_rate`. They are chosen at random, so that the consumers of one queue do
    not all move at once.
    """

    def __init__(self, sessions: Mapping[int, Session], groups: Callable[[], list[UpstreamGroup]]) -> None:
        self._sessions = sessions
        self._groups = groups
        self._draining: dict[Member, float] = {}
        self._rebalancing: dict[str, float] = {}
        self._due: dict[str, float] = {}

    def drain(self, member: Member, rate: float) -> None:
        """Drain a member: it takes no new clients, and `rate` of its present ones are moved each second."""
        member.is_draining = True
        self._draining[member] = rate

    def rebalance(self, group: UpstreamGroup, rate: float) -> None:
        """Move `rate` clients a second until no member exceeds its share by more than `SKEW`."""
        self._rebalancing[group.name] = rate

    async def run(self) -> None:
        """Move clients until cancelled."""
        while True:
            await trio.sleep(INTERVAL)
            for group in self._groups():
                await self._move_some(group)

    async def _move_some(self, group: UpstreamGroup) -> None:
        """Move the clients of one group that are due in one interval."""
        for member in group.members:
            if not member.is_draining:
                self._draining.pop(member, None)
            elif rate := self._draining.get(member, 0.0):
                await self._move({member: member.connections}, self._taken(member.address, rate))
        rate = max(self._rebalancing.get(group.name, 0.0), group.rebalance_rate)
        surplus = {
            member: count
            for member, count in group.surplus(trio.current_time(), SKEW).items()
            if member not in self._draining
        }
        if not surplus:
            self._rebalancing.pop(group.name, None)
        elif rate:
            await self._move(surplus, self._taken(group.name, rate))

    def _taken(self, key: str, rate: float) -> int:
        """Return the whole number of clients that are due at a rate, and keep the fraction for the next time."""
        due = self._due.get(key, 0.0) + rate * INTERVAL
        self._due[key] = due % 1
        return int(due)

    async def _move(self, counts: Mapping[Member, int], most: int) -> None:
        """End up to `counts` sessions of each member, and no more than `most` in all."""
        left = dict(counts)
        chosen: dict[int, Session] = {}
        candidates = [session for session in self._sessions.values() if left.get(session.member)]  # type: ignore[arg-type]
        random.shuffle(candidates)
        for session in candidates:
            member = session.member
            if len(chosen) >= most:
                break
            if member is not None and left[member] > 0 and session.is_open:
                left[member] -= 1
                chosen[session.number] = session
        if chosen:
            logger().info("clients moved", clients=len(chosen))
            await for_each(chosen, lambda session: session.drain(MOVED), SESSIONS_A_TURN)

    async def close(self, member: Member, reason: str) -> None:
        """Tell the clients of a member that is down 320 with this reason, and reset the connections to it."""
        lost = {number: session for number, session in self._sessions.items() if session.member is member}
        if lost:
            logger().warning("clients closed", member=member.address, clients=len(lost), reason=reason)
            await for_each(lost, lambda session: session.disconnect(SERVER, reason), SESSIONS_A_TURN)
