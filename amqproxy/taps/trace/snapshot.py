"""State of a connection at one moment, from which a trace that joins there goes on as if it had seen the beginning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import msgspec

from amqproxy.peer import Peer
from amqproxy.taps.trace.open_tags import Span

UNKNOWN_CONSUMER = ""
"""Consumer tag of an open delivery whose consumer is unknown: a meter does not keep it. No broker chooses it."""

MAX_SPANS_OF_CHANNEL = 1_024
"""Ranges of publishes, and of deliveries, of one channel in a snapshot: the newest ones; older ones are left out."""

MAX_SPANS = 8_192
"""Ranges of all channels of a connection in a snapshot that a proxy makes."""

MAX_CONSUMERS = 8_192
"""Consumers of all channels of a connection in a snapshot that a proxy makes."""

MAX_DECLARATIONS = 1_024
"""Exchanges, queues and bindings of a connection in a snapshot that a proxy makes."""

MAX_DECLARATION_BYTES = 128 * 1024
"""Bytes of the declarations of a connection in a snapshot that a proxy makes: its channels must find room, too."""

MAX_NUMBER = (1 << 62) - 1
"""Highest number and time in a snapshot, below those with which 64 bits overflow."""

MAX_CHANNEL = 0xFFFF

MODES = (None, "normal", "confirm", "tx", "dtx")

PEERS = tuple(str(peer) for peer in Peer)


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

    greeted_ts_ns: int | None = None
    step: str | None = None
    user: str | None = None
    mechanism: str | None = None
    virtual_host: str | None = None
    client_properties: dict[str, Any] | None = None
    server_properties: dict[str, Any] | None = None
    channel_max: int | None = None
    frame_max: int | None = None
    heartbeat: int | None = None


class ConsumerSnapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A consumer, or a subscription: its tag or destination, and the queue that it is on, `None` if unknown.

    `number` orders the client's requests that begin or end consumers, where several consumers may have one tag.
    """

    tag: str
    queue: str | None = None
    no_ack: bool = False
    exclusive: bool = False
    number: int = 0


class RequestSnapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request that awaits its reply.

    `method` is the frame's payload as `sender` has sent it, `number` the command's id where commands are numbered, else
    as in `ConsumerSnapshot`; `last_queue` is the queue that an empty name in it stands for, `None` if unknown.
    """

    ts_ns: int
    sender: str
    method: bytes
    number: int | None = None
    last_queue: str | None = None


class ContentSnapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message of `sender` of which some frames have passed.

    `method` is the payload of its first frame, if that is known, `remaining` the bytes of its body that are to come;
    `None` if its header is to come. `header` is the payload of the header, if it has come and is known. The queue of a
    message that basic.get got, whether the client has to settle it, and the latency, are `None` if unknown.
    """

    sender: str
    method: bytes | None = None
    remaining: int | None = None
    header: bytes | None = None
    queue: str | None = None
    awaits: bool | None = None
    latency_ns: int | None = None


class ChannelSnapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State of a channel, or of a session that is attached to one.

    - `mode`: "normal", "confirm", "tx" or "dtx"; `None` if it is unknown.
    - `published`: number of the last publish, as confirms count them, which leave out the `published_before`
      confirm.select; where commands are numbered, the position of the client's last command that has begun, -1 before
      the first.
    - `delivered`: tag of the last delivery, or position of the broker's last command that has begun; `None` if it is
      unknown.
    - `unconfirmed`, `unacked`: publishes and deliveries that are open, oldest first, by tag, or by position where
      commands are numbered; `has_forgotten`: whether there may be more.
    - `knows_consumers`: whether `consumers` are all that there may be.
    - `last_queue`: the queue that the channel has declared last; `None` if none or unknown.
    - `opening_ts_ns`: time of a channel.open that is unanswered.
    - `closing`: peers that have sent channel.close without an answer so far.
    """

    number: int
    epoch: int = 0
    mode: str | None = None
    published: int = 0
    published_before: int = 0
    delivered: int | None = None
    unconfirmed: tuple[Span, ...] = ()
    unacked: tuple[Span, ...] = ()
    has_forgotten: bool = False
    consumers: tuple[ConsumerSnapshot, ...] = ()
    knows_consumers: bool = True
    requests: tuple[RequestSnapshot, ...] = ()
    contents: tuple[ContentSnapshot, ...] = ()
    last_queue: str | None = None
    opening_ts_ns: int | None = None
    closing: tuple[str, ...] = ()
    name: bytes | None = None
    """The session's name, where channels have named sessions attached."""


class DeclarationSnapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An exchange, a queue or a binding that the client has declared, and that has not been deleted since.

    `method` is the payload of the request, of 0-9-1 whatever the protocol, with the name that the broker has chosen.
    `ts_ns` is the time of its first declaration, which another client may have made: the one of the proxy's `session`,
    with this `user` and `address`, all `None` if it was this client.
    """

    method: bytes
    ts_ns: int
    session: int | None = None
    user: str | None = None
    address: str | None = None


class ConnectionSnapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """State of a connection at `ts_ns`, between two frames, as the client sees it.

    `protocol` is its name as in a `ProtocolHeader`, `closing` are the peers that have sent connection.close. What is
    missing is unknown, never absent: a trace claims nothing from it. `declarations_left_out` counts those that found no
    room.
    """

    ts_ns: int
    protocol: str
    handshake: HandshakeSnapshot = HandshakeSnapshot()
    is_open: bool | None = True
    closing: tuple[str, ...] = ()
    blocked_since_ns: int | None = None
    channels: tuple[ChannelSnapshot, ...] = ()
    requests: tuple[RequestSnapshot, ...] = ()
    declarations: tuple[DeclarationSnapshot, ...] = ()
    declarations_left_out: int = 0

    def check(self) -> None:
        """Run `checking` to its end."""
        for _ in self.checking():
            pass

    def checking(self) -> Iterator[None]:
        """Raise `ValueError` unless all numbers are possible and all ranges are in order; yield after each channel."""
        _check_limits(self.ts_ns, self.blocked_since_ns or 0)
        _check_peers(self.closing, self.requests)
        _check_limits(self.declarations_left_out, *[each.ts_ns for each in self.declarations])
        for channel in self.channels:
            _check_limits(channel.epoch, channel.published + 1, channel.published_before, (channel.delivered or 0) + 1)
            if not 0 <= channel.number <= MAX_CHANNEL or channel.mode not in MODES:
                raise ValueError(f"channel {channel.number} in mode {channel.mode!r}: there is no such channel or mode")
            _check_spans(channel.unconfirmed)
            _check_spans(channel.unacked)
            _check_peers(channel.closing, channel.requests, channel.contents)
            yield

    def to_bytes(self) -> bytes:
        """Return the snapshot in MessagePack, encoded once: several taps may need it."""
        return self._encoded

    def keep_encoded(self, channels: Sequence[bytes]) -> None:
        """Keep the snapshot's encoding, given that of each of its channels: encoding 10,000 at once takes 4 ms."""
        count = len(channels)
        head = b"\xdc" + count.to_bytes(2) if count < 1 << 16 else b"\xdd" + count.to_bytes(4)
        if count < 16:
            head = bytes((0x90 | count,))
        encoded = msgspec.Raw(b"".join((head, *channels)))
        self.__dict__["_encoded"] = msgspec.msgpack.encode(msgspec.structs.replace(self, channels=encoded))

    @cached_property
    def _encoded(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> ConnectionSnapshot:
        """Read a snapshot. Raises `msgspec.DecodeError`; fields that are not known here are ignored."""
        return _decoder.decode(data)


_decoder = msgspec.msgpack.Decoder(ConnectionSnapshot)


def _check_limits(*numbers: int) -> None:
    for number in numbers:
        if not 0 <= number <= MAX_NUMBER:
            raise ValueError(f"{number} is not between 0 and {MAX_NUMBER}")


def _check_spans(spans: tuple[Span, ...]) -> None:
    last = -1
    for span in spans:
        _check_limits(span.first, span.last, span.ts_ns)
        if not last < span.first <= span.last:
            raise ValueError(f"the range from {span.first} to {span.last} comes after {last}: ranges must ascend")
        last = span.last


def _check_peers(
    closing: tuple[str, ...], requests: tuple[RequestSnapshot, ...], contents: tuple[ContentSnapshot, ...] = ()
) -> None:
    for peer in (*closing, *[each.sender for each in requests], *[each.sender for each in contents]):
        if peer not in PEERS:
            raise ValueError(f"{peer!r} is not a peer: expected one of {', '.join(PEERS)}")
    for request in requests:
        _check_limits(request.ts_ns, request.number or 0)
    for content in contents:
        _check_limits(content.remaining or 0)
