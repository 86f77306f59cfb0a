"""Watchdog for peers that are silent or do not read, and sender of overdue heartbeats: one task, off the data path.

A client that has missed its heartbeats is sent nothing: its socket is reset. The broker behind it is sent
connection.close (320). `Session.disconnect` does both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import trio

from amqproxy.configuration.config import Limits
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.leg import Leg
from amqproxy.proxy.session.session import Session
from amqproxy.proxy.sessions import for_each
from amqproxy.sockets.transport import Transport

INTERVAL = 1.0
"""Seconds between two checks of every session."""

SESSIONS_A_TURN = 200
"""Sessions checked in one turn of the loop."""


def _none(now: float) -> Iterable[Session]:
    return ()


async def watch(
    sessions: Mapping[int, Session], limits: Limits, silent: Callable[[float], Iterable[Session]] = _none
) -> None:
    """Check `sessions`, a mapping that may change, until cancelled.

    Parked sessions with a silent peer are those that the pumps report as `silent`.
    """
    watchdog = Watchdog(limits)
    while True:
        await trio.sleep(INTERVAL)
        watchdog.begin_round()
        await for_each(
            sessions, lambda session: watchdog.look_unless_parked(session, trio.current_time()), SESSIONS_A_TURN
        )
        found = {session.number: session for session in silent(trio.current_time())}
        await for_each(found, lambda session: watchdog.look(session, trio.current_time()), SESSIONS_A_TURN)


class Watchdog:
    """The state between two checks: since when each peer has accepted no data."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._stalled: dict[tuple[int, Peer], tuple[int, float]] = {}
        self._stalled_before = self._stalled

    def begin_round(self) -> None:
        """Start a round of checks, to be compared with the results of the previous one."""
        self._stalled_before, self._stalled = self._stalled, {}

    def look_unless_parked(self, session: Session, now: float) -> None:
        """Check a session like `look`, unless a pump watches it."""
        if not session.is_parked:
            self.look(session, now)

    def look(self, session: Session, now: float) -> None:
        """End a session one of whose peers has been silent for too long, or does not read the data sent to it.

        A broker that expects more heartbeats than the client sends is sent them from here. A paused client that has
        hung up is resumed.
        """
        session.refresh()
        if session.is_paused and session.client_transport.has_hung_up():
            session.resume(by="since the client has hung up")
        legs = session.legs
        if session.owes_heartbeats:
            upstream = legs[SERVER].connection
            if upstream.is_heartbeat_due(CLIENT, now):
                upstream.note_received(CLIENT, now)
                session.send_heartbeat()
        for peer, transport in session.transports.items():
            leg = legs.get(peer)
            seconds = self._stalled_for((session.number, peer), transport, now)
            if peer is SERVER:
                session.note_upstream_stall(seconds)
            missed = "" if leg is None else leg.missed_heartbeats(now)
            reason = missed or self._stalled_reason(peer, leg, seconds)
            if reason:
                session.disconnect(peer, reason)
                break

    def _stalled_for(self, key: tuple[int, Peer], transport: Transport, now: float) -> float:
        """Return for how many seconds a peer has accepted none of the data waiting for it."""
        if not transport.is_sending:
            return 0.0
        before = self._stalled_before.get(key)
        progress = transport.progress
        self._stalled[key] = (progress, now) if before is None or before[0] != progress else before
        return now - self._stalled[key][1]

    def _stalled_reason(self, peer: Peer, leg: Leg[Any] | None, seconds: float) -> str:
        """Return why a peer counts as gone after accepting nothing for `seconds`; "" if it does not."""
        timeout = self._send_timeout(peer, leg)
        return f"has taken nothing for {timeout:g} s" if seconds and seconds >= timeout else ""

    def _send_timeout(self, peer: Peer, leg: Leg[Any] | None) -> float:
        """Return a peer's send timeout; in an alarm, RabbitMQ reads nothing from publishers, but sends heartbeats."""
        if peer is not SERVER:
            return self._limits.send_timeout
        return math.inf if leg is not None and leg.connection.heartbeat else self._limits.upstream_send_timeout
