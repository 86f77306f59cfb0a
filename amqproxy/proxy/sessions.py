"""Iteration over very many sessions, some in each turn of the loop, so that all are served meanwhile."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import trio

from amqproxy.proxy.session.session import Session

LONG_TURN = 0.1
"""Duration of a turn of the loop, in seconds, above which very many sessions are busy."""


async def for_each(
    sessions: Mapping[int, Session], do: Callable[[Session], None], a_turn: int, by: float = math.inf
) -> None:
    """Call `do` with each current session that has not ended by its turn: `a_turn` of them in each turn of the loop.

    After a `LONG_TURN` of all other tasks, more are handled, for half of its duration: a thousand busy sessions take
    2 s a turn, and 20 turns of them 40 s. From the time `by` on, all that are left are handled at once. A failure ends
    its session, and no other.
    """
    until = 0.0
    for done, session in enumerate(list(sessions.values()), 1):
        if session.number in sessions:
            with session.contained():
                do(session)
        began = trio.current_time()
        if not done % a_turn and until <= began < by:
            await trio.lowlevel.checkpoint()
            now = trio.current_time()
            until = now + (now - began) / 2 if now - began > LONG_TURN else now
