"""How a session reaches a broker: a connection that has been sent the client's protocol header."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, suppress
from typing import NamedTuple, Protocol

from amqproxy.proxy.logins.credential import CredentialSource
from amqproxy.proxy.upstream import MAIN, Unreachable
from amqproxy.proxy.upstreams.member import Member
from amqproxy.rules.context import Client
from amqproxy.sockets.transport import Transport, TransportBroken


class Reached(NamedTuple):
    """A connection to a broker that has been sent the client's protocol header.

    `answer` holds the broker's first bytes, if they were awaited; `member` is the one that took the client, if it is
    one of a group, and `upstream` the group's name. `waited` is how long the client waited for its turn, in seconds.
    """

    transport: Transport
    answer: bytes = b""
    member: Member | None = None
    upstream: str = MAIN
    waited: float = 0.0


Unhurried = Callable[[], AbstractContextManager[None]]
"""Suspends the deadline of a client's handshake within a block."""

MemberLogin = Callable[[Transport, bytes], Awaitable[bytes]]
"""Logs in to a broker whose first bytes are given, and returns its answer to connection.open.

Raises `Unreachable` if another member may be tried.
"""

BrokerLogin = Callable[[CredentialSource | None], Awaitable[MemberLogin]]
"""Awaits the credential, which the group's source has if the client has none of its own, and returns the login by it.

No member is connected meanwhile, since a token that comes late is not a member's fault.
"""


class Reach(Protocol):
    """Connects a client, and sends this protocol header, if there is one.

    With a `login`, the answer of the result is that of the login; with a `member`, only that one is tried. Raises
    `Unreachable`; or, if clients wait for their turn to log in, which is `unhurried`, `QueueFull` or `Departed`.
    """

    async def __call__(
        self,
        header: bytes,
        client: Client,
        unhurried: Unhurried,
        login: BrokerLogin | None = None,
        member: Member | None = None,
    ) -> Reached: ...


async def logged_in(transport: Transport, login: Awaitable[bytes]) -> bytes:
    """Return the answer to the proxy's login; close the connection if there is none."""
    try:
        return await login
    except BaseException as error:
        await transport.reset()
        if isinstance(error, TransportBroken):
            raise Unreachable("no answer", f"the broker hung up during the login: {error}") from None
        raise


def reach_by(dial: Callable[[], Awaitable[Transport]], source: CredentialSource | None = None) -> Reach:
    """Return a `Reach` that dials, and sends the header without awaiting an answer; logins have the `source`."""

    async def reach(
        header: bytes,
        client: Client,
        unhurried: Unhurried,
        login: BrokerLogin | None = None,
        member: Member | None = None,
    ) -> Reached:
        log_in = None if login is None else await login(source)
        transport = await dial()
        with suppress(TransportBroken):  # whoever receives next reports the failure
            if header:
                await transport.send(header)
        if log_in is None:
            return Reached(transport)
        return Reached(transport, await logged_in(transport, _log_in(log_in, transport)))

    return reach


async def _log_in(log_in: MemberLogin, transport: Transport) -> bytes:
    return await log_in(transport, await transport.receive())
