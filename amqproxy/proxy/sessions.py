"""What is done with very many sessions: some in each turn of the loop, so that all are served meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import trio

from amqproxy.proxy.session.session import Session


async def for_each(sessions: Mapping[int, Session], do: Callable[[Session], None], a_turn: int) -> None:
    """Call `do` with each session that there is now and has not ended by its turn, so many in one turn.

    Where that fails, it ends the session, and no other.
    """
    for done, session in enumerate(list(sessions.values()), 1):
        if session.number in sessions:
            with session.contained():
                do(session)
        if not done % a_turn:
            await trio.lowlevel.checkpoint()
