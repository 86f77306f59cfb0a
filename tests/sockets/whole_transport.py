"""A transport none of whose halves can be closed alone, and whose socket is never lent."""

from amqproxy.sockets.transport import SocketTransport


class WholeTransport(SocketTransport):
    """Closes both halves at once, as some peers do over TLS."""

    __slots__ = ()

    def lend(self) -> int | None:
        return None

    async def send_eof(self) -> None:
        await self.aclose()
