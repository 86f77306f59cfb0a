"""The beginning of a 0-9-1 connection: the client's protocol header, and connection.start, which answers it."""

from __future__ import annotations

from amqproxy.amqp091.methods import ConnectionStart
from amqproxy.amqp091.protocol_header import HEADER, NAME, recognise
from amqproxy.amqp091.wire import Table

VERSIONS = {NAME: (0, 9), "0-9": (0, 9), "0-8": (8, 0), "0-9-1 (Qpid)": (8, 0)}
"""The protocols whose clients RabbitMQ accepts, and the version that it sends them."""


class Handshake:
    """The protocol header of one client, which may come in pieces."""

    __slots__ = ("_received",)

    def __init__(self) -> None:
        self._received = b""

    @property
    def has_begun(self) -> bool:
        """Whether the client has sent anything."""
        return bool(self._received)

    def protocol(self, data: bytes) -> str | None:
        """Return the name of the client's protocol; `None` while its header is incomplete."""
        self._received += data
        return recognise(self._received)

    @property
    def header(self) -> bytes:
        """The bytes received in the place of the protocol header."""
        return self._received[: len(HEADER)]

    @property
    def behind_header(self) -> bytes:
        """The bytes received after the protocol header."""
        return self._received[len(HEADER) :]


def start(protocol: str, properties: Table, mechanisms: bytes) -> ConnectionStart:
    """Return connection.start, the answer to the protocol header of one of `VERSIONS`."""
    major, minor = VERSIONS[protocol]
    return ConnectionStart(major, minor, properties, mechanisms, b"en_US")
