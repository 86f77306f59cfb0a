"""Relay for a protocol that is not decoded: copies bytes in both directions until both have ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.sockets.transport import Transport, TransportBroken


class Tunnel:
    """A byte relay between a client and its upstream, which speak `protocol`.

    `ended_by` is the peer that hung up first, and the reason.
    """

    def __init__(
        self,
        protocol: str,
        client: Transport,
        upstream: Transport,
        close_timeout: float,
        watch: Callable[[Peer, bytes], Awaitable[None]],
    ) -> None:
        """`close_timeout` is how many seconds a peer has to close its half after the other has. `watch` is shown each
        chunk before it is sent, and may delay it.
        """
        self.protocol = protocol
        self._client = client
        self._upstream = upstream
        self._close_timeout = close_timeout
        self._watch = watch
        self.ended_by: tuple[str, str] | None = None

    async def run(self, nursery: trio.Nursery, received: bytes) -> None:
        """Relay both directions until they end. `received` holds the bytes that the client has sent so far."""
        nursery.start_soon(self._carry, SERVER, self._upstream, self._client, b"", nursery.cancel_scope)
        await self._carry(CLIENT, self._client, self._upstream, received, nursery.cancel_scope)

    async def _carry(
        self, sender: Peer, source: Transport, target: Transport, data: bytes, scope: trio.CancelScope
    ) -> None:
        reason = "closed"
        try:
            data = data or await source.receive()
            while data:
                await self._watch(sender, data)
                await target.send(data)
                data = await source.receive()
        except TransportBroken as error:  # of either transport: the tunnel is useless without it
            reason = str(error)
            scope.cancel()
        if self.ended_by is None:
            self.ended_by = str(sender), reason
            scope.deadline = min(scope.deadline, trio.current_time() + self._close_timeout)
        try:
            await target.send_eof()
        except TransportBroken:
            scope.cancel()
