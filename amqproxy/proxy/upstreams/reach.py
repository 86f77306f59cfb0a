"""How a session reaches a broker: a connection that has been sent the client's protocol header."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

from amqproxy.proxy.upstream import MAIN
from amqproxy.proxy.upstreams.member import Member
from amqproxy.rules.context import Client
from amqproxy.sockets.transport import Transport, TransportBroken


class Reached(NamedTuple):
    """A connection to a broker that has been sent the client's protocol header.

    `answer` holds the broker's first bytes, if they were awaited; `member` is the one that took the client, if it is
    one of a group, and `upstream` the group's name.
    """

    transport: Transport
    answer: bytes = b""
    member: Member | None = None
    upstream: str = MAIN


Reach = Callable[[bytes, Client], Awaitable[Reached]]
"""Connects a client and sends this protocol header, if there is one; raises `Unreachable`."""


def reach_by(dial: Callable[[], Awaitable[Transport]]) -> Reach:
    """Return a `Reach` that dials, and sends the header without awaiting an answer."""

    async def reach(header: bytes, client: Client) -> Reached:
        transport = await dial()
        with suppress(TransportBroken):  # whoever receives next reports the failure
            if header:
                await transport.send(header)
        return Reached(transport)

    return reach
