"""Hangs up on peers that have gone silent; one task for all sessions, off the data path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import trio

from amqproxy.amqp091.grammar import Peer
from amqproxy.proxy.session import Session

INTERVAL = 1.0
"""Seconds between two looks at every session."""


async def watch(sessions: Mapping[int, Session]) -> None:
    """Look after `sessions`, whoever comes and goes, until cancelled."""
    seen: dict[tuple[int, Peer], int] = {}
    while True:
        await trio.sleep(INTERVAL)
        seen = look(list(sessions.values()), seen, trio.current_time())


def look(sessions: Iterable[Session], seen: dict[tuple[int, Peer], int], now: float) -> dict[tuple[int, Peer], int]:
    """End every session one of whose peers has been silent for too long.

    `seen` is what the last look returned: how many octets had come from each peer. A peer that is
    not being listened to, because what it said before is still being passed on, is not silent.
    """
    counts = {}
    for session in sessions:
        with session.contained():
            for peer, leg in session.legs.items():
                connection = leg.connection
                if not connection.heartbeat:
                    continue
                key = (session.number, peer)
                counts[key] = leg.transport.received
                if counts[key] != seen.get(key) or not leg.transport.is_listening:
                    connection.heard(peer, now)
                elif connection.is_silent(peer, now):
                    session.fall_silent(peer)
                    break
    return counts
