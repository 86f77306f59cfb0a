"""A client's channel on a shared connection."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from amqproxy.amqp091.frame import BODY, HEADER, METHOD, Frame, encode_frame
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicNack,
    BasicPublish,
    ChannelClose,
    ChannelFlowOk,
    ConfirmSelectOk,
)
from amqproxy.amqp091.transitions import ANSWERS
from amqproxy.proxy.amqp091.pools.sharing import is_harmless_header

PREFIX = 7
"""Bytes of a frame before its payload, and one after it (section 4.2.3)."""


class ChannelOwner(Protocol):
    """The client of a channel."""

    def pass_on(self, channel: PooledChannel, frame: Frame) -> None:
        """Pass on a frame that the broker has sent on the channel."""

    def end_channel(self, channel: PooledChannel, close: ChannelClose | None) -> None:
        """Note that the channel is closed: by the broker, or as its client asked, without a `close`."""

    def note_proof(self, request: bytes) -> None:
        """Note that the broker has answered a request that may fail hard."""

    def note_progress(self) -> None:
        """Note that something that may be waited for has happened on a channel."""


class PooledChannel:
    """The client's channel `number`, which is `upstream_number` on the shared connection.

    `confirms` is how many publishes the broker has to confirm in all. `is_closing` is whether the client has asked for
    its end. `last_queue` is the queue that was last declared on it, for which "" stands in other methods.
    """

    __slots__ = (
        "_awaited",
        "_confirmed",
        "_confirmed_ahead",
        "_owner",
        "_partial",
        "_partial_size",
        "_processed",
        "_select_oks",
        "_sent",
        "body_left",
        "confirms",
        "is_closing",
        "is_confirming",
        "last_queue",
        "number",
        "upstream_number",
    )

    def __init__(self, number: int, owner: ChannelOwner) -> None:
        self.number = number
        self.upstream_number = 0
        self.is_confirming = False
        self.confirms = 0
        self.is_closing = False
        self.body_left = 0
        self.last_queue = ""
        self._owner = owner
        self._confirmed = 0
        self._confirmed_ahead: set[int] = set()
        """Tags that were confirmed before some of those that follow `_confirmed`."""
        self._partial: list[bytes] = []
        self._partial_size = 0
        self._sent = self._processed = 0
        self._awaited: deque[tuple[int, bytes]] = deque()
        self._select_oks = 0

    # --- messages of the client

    @property
    def partial(self) -> list[bytes]:
        """The frames of the client's message that is not complete, as it has sent them."""
        return self._partial

    def begin_message(self, frame: Frame) -> None:
        """Take a basic.publish."""
        self._partial, self._partial_size = [frame.raw], frame.length()
        self.body_left = -1

    def take_content(self, frame: Frame, buffer: int) -> bool:
        """Take the next frame of a message; return whether the message may still be shared.

        It may not if it is larger than `buffer` or than it announces, or if a broker may not be able to decode it.
        """
        self._partial.append(frame.raw)
        self._partial_size += frame.length()
        if frame.kind == HEADER:
            self.body_left = frame.body_size
            return self.body_left <= buffer and self._partial_size <= buffer and is_harmless_header(frame)
        self.body_left -= frame.size
        return self.body_left >= 0

    @property
    def is_complete(self) -> bool:
        return self.body_left == 0 and bool(self._partial)

    def take_message(self, frame_max: int) -> bytes:
        """Take the complete message, as it is sent on the shared connection with this frame_max."""
        frames, self._partial, self._partial_size = self._partial, [], 0
        if self.is_confirming:
            self.confirms += 1
        else:
            self._sent += 1
        return b"".join([readdressed(raw, self.upstream_number, frame_max) for raw in frames])

    # --- what is waited for

    @property
    def unconfirmed(self) -> list[int]:
        """The tags of the publishes that the broker has not confirmed."""
        return [tag for tag in range(self._confirmed + 1, self.confirms + 1) if tag not in self._confirmed_ahead]

    @property
    def is_settled(self) -> bool:
        """Whether the broker has processed all that was sent."""
        return self._confirmed == self.confirms and self._processed == self._sent

    @property
    def needs_flow(self) -> bool:
        """Whether only the answer to a channel.flow can show that the broker has processed what was sent."""
        return self._processed < self._sent and (not self._awaited or self._awaited[-1][0] < self._sent)

    def note_request(self, request: bytes, *, is_answered: bool) -> None:
        """Note a request, by whose answer all that was sent before it is processed; a channel.flow is b""."""
        self._sent += bool(request)
        if is_answered:
            self._awaited.append((self._sent, request))

    def note_select(self) -> None:
        """Note a confirm.select whose answer the client has got already."""
        self._select_oks += 1

    # --- frames of the broker

    def take(self, frame: Frame) -> None:
        method = frame.method if frame.kind == METHOD else None
        match method:
            case ChannelFlowOk():
                self._note_answer()
                return
            case ConfirmSelectOk() if self._select_oks:
                self._select_oks -= 1
                return
            case BasicAck() | BasicNack():
                self._confirm(method.delivery_tag, multiple=method.multiple)
                self._owner.pass_on(self, frame)
                self._owner.note_progress()
                return
            case _:
                self._owner.pass_on(self, frame)
                if method is not None and method.name in ANSWERS:
                    self._note_answer()

    def _note_answer(self) -> None:
        """Note the answer to the oldest request: the broker has processed all that was sent before it."""
        if self._awaited:
            self._processed, request = self._awaited.popleft()
            if request:
                self._owner.note_proof(request)
        self._owner.note_progress()

    def _confirm(self, tag: int, *, multiple: bool) -> None:
        ahead = self._confirmed_ahead
        if multiple:
            last = min(tag, self.confirms) if tag else self.confirms
            if len(ahead) > last - self._confirmed:
                ahead.difference_update(range(self._confirmed + 1, last + 1))
            elif ahead:
                self._confirmed_ahead = ahead = {each for each in ahead if each > last}
            self._confirmed = max(self._confirmed, last)
        elif self._confirmed < tag <= self.confirms:
            ahead.add(tag)
        while self._confirmed + 1 in ahead:
            self._confirmed += 1
            ahead.remove(self._confirmed)

    def take_close(self, close: ChannelClose) -> None:
        self._owner.end_channel(self, close)

    def take_close_ok(self) -> None:
        self._owner.end_channel(self, None)


def readdressed(raw: bytes, channel: int, frame_max: int) -> bytes:
    """Return a frame for another channel; a body that is larger than `frame_max` as several frames."""
    if raw[0] != BODY or not frame_max or len(raw) <= frame_max:
        return b"%b%b%b" % (raw[:1], channel.to_bytes(2), raw[3:])
    most = frame_max - PREFIX - 1
    body = raw[PREFIX:-1]
    return b"".join([encode_frame(BODY, channel, body[start : start + most]) for start in range(0, len(body), most)])


def begins_message(frame: Frame) -> bool:
    """Whether a frame is a basic.publish."""
    return bool(frame.kind == METHOD and frame.index == BasicPublish.index)
