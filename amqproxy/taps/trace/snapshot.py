"""State of a connection at one moment, from which a trace that joins there goes on as if it had seen the beginning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from amqproxy.taps.trace.open_tags import Span

UNKNOWN_CONSUMER = ""
"""Consumer tag of an open delivery whose consumer is unknown: a meter does not keep it. No broker chooses it."""

MAX_SPANS_OF_CHANNEL = 1_024
"""Ranges of publishes, and of deliveries, of one channel in a snapshot: the newest ones; older ones are left out."""

MAX_SPANS = 8_192
"""Ranges of all channels of a connection in a snapshot that a proxy makes."""

MAX_CONSUMERS = 8_192
"""Consumers of all channels of a connection in a snapshot that a proxy makes."""


def known_text(text: str | None) -> str | None:
    """Return a text; `None` if it is not valid UTF-8, so that a snapshot cannot have it."""
    if text is None or text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return None
    return text


def spans_up_to(last: int, spans: Iterable[Span]) -> Iterator[Span]:
    """Yield the ranges without the tags above `last`."""
    for span in spans:
        if span.last <= last:
            yield span
        elif span.first <= last:
            yield msgspec.structs.replace(span, last=last)


class HandshakeSnapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts of a handshake, as in `HandshakeFacts`; `None` for each that is unknown. Secrets are not among them."""

    user: str | None = None
    mechanism: str | None = None
    virtual_host: str | None = None
    client_properties: dict[str, Any] | None = None
    server_properties: dict[str, Any] | None = None
    channel_max: int | None = None
    frame_max: int | None = None
    heartbeat: int | None = None


class ConsumerSnapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A consumer, or a subscription: its tag or destination, and the queue that it is on, `None` if unknown."""

    tag: str
    queue: str | None = None
    no_ack: bool = False
    exclusive: bool = False


class RequestSnapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request that awaits its reply.

    `method` is the frame's payload as `sender` has sent it, `number` the command's id where commands are numbered.
    """

    ts_ns: int
    sender: str
    method: bytes
    number: int | None = None


class ContentSnapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message of `sender` of which some frames have passed.

    `method` is the payload of its first frame, if that is known, `remaining` the bytes of its body that are to come;
    `None` if its header is to come.
    """

    sender: str
    method: bytes | None = None
    remaining: int | None = None


class ChannelSnapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State of a channel, or of a session that is attached to one.

    - `mode`: "normal", "confirm", "tx" or "dtx"; `None` if it is unknown.
    - `published`: number of the last publish, as confirms count them; where commands are numbered, the position of the
      client's last command that has begun, -1 before the first.
    - `delivered`: tag of the last delivery, or position of the broker's last command that has begun; `None` if it is
      unknown.
    - `unconfirmed`, `unacked`: publishes and deliveries that are open, oldest first, by tag, or by position where
      commands are numbered; `has_forgotten`: whether there may be more.
    - `knows_consumers`: whether `consumers` are all that there may be.
    - `last_queue`: the queue that the channel has declared last; `None` if none or unknown.
    - `closing`: peers that have sent channel.close without an answer so far.
    """

    number: int
    epoch: int = 0
    mode: str | None = None
    published: int = 0
    delivered: int | None = None
    unconfirmed: tuple[Span, ...] = ()
    unacked: tuple[Span, ...] = ()
    has_forgotten: bool = False
    consumers: tuple[ConsumerSnapshot, ...] = ()
    knows_consumers: bool = True
    requests: tuple[RequestSnapshot, ...] = ()
    contents: tuple[ContentSnapshot, ...] = ()
    last_queue: str | None = None
    closing: tuple[str, ...] = ()
    name: bytes | None = None
    """The session's name, where channels have named sessions attached."""


class ConnectionSnapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State of a connection at `ts_ns`, between two frames, as the client sees it.

    `protocol` is its name as in a `ProtocolHeader`. What is missing is unknown, never absent: a trace claims
    nothing from it.
    """

    ts_ns: int
    protocol: str
    handshake: HandshakeSnapshot = HandshakeSnapshot()
    is_open: bool = True
    blocked_since_ns: int | None = None
    channels: tuple[ChannelSnapshot, ...] = ()
    requests: tuple[RequestSnapshot, ...] = ()

    def to_bytes(self) -> bytes:
        """Return the snapshot in MessagePack."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> ConnectionSnapshot:
        """Read a snapshot. Raises `msgspec.DecodeError`; fields that are not known here are ignored."""
        return _decoder.decode(data)


_decoder = msgspec.msgpack.Decoder(ConnectionSnapshot)
