"""Deliveries to publishes, and confirms to acknowledgements: the sans-IO core of a move."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from amqproxy.amqp091.frame import BODY, HEADER, METHOD, OVERHEAD, Frame, encode_frame, encode_method
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicCancel,
    BasicDeliver,
    BasicNack,
    BasicPublish,
    BasicReturn,
    ChannelClose,
    ConnectionClose,
)
from amqproxy.moving.unsettled_messages import UnsettledMessages

CHANNEL = 1
"""The only channel of both connections: frames keep their bytes when they are forwarded."""


class MoveFailed(Exception):
    """The move of a queue cannot go on; the text has the reason. Unsettled messages are still in the source."""


Publish = tuple[BasicPublish, bytes]
"""The method and the frame of the content header that publish a message."""


class MessageForwarder:
    """Forwarder of one consumer's messages.

    `publish_of` returns the publish of a delivery with the frame of its content header, `None` to leave the message
    unsettled in the source. `frame_max` is the target's limit, 0 for none. `received` counts complete deliveries,
    `moved` those that are acknowledged; `failure` is why the move cannot go on.
    """

    def __init__(
        self,
        publish_of: Callable[[BasicDeliver, Frame], Publish | None],
        frame_max: int,
        unsettled: UnsettledMessages | None = None,
    ) -> None:
        self.unsettled = UnsettledMessages() if unsettled is None else unsettled
        self.failure: MoveFailed | None = None
        self.moved = 0
        self.received = 0
        self._publish_of = publish_of
        self._frame_max = frame_max
        self._method: BasicDeliver | None = None
        self._remaining = 0
        self._size = 0
        self._header = b""

    def deliver(self, frames: Iterable[Frame]) -> bytes:
        """Return the publishes for the source's frames. Raise `MoveFailed` if the source ends the consumer."""
        output: list[bytes] = []
        for frame in frames:
            if frame.kind == METHOD:
                self._begin(frame)
            elif self._method is None:
                continue
            elif frame.kind == HEADER:
                output += self._begin_content(self._method, frame)
            elif frame.kind == BODY:
                self._remaining -= frame.size
                output += self._bodies(frame)
            if self._method is not None and self._header and not self._remaining:
                self.received += 1
                self.note(self._method.delivery_tag, self._size + len(self._header))
                self._method, self._header = None, b""
        return b"".join(output)

    def _begin(self, frame: Frame) -> None:
        method = frame.method
        if isinstance(method, BasicDeliver):
            self._method = method
        elif isinstance(method, BasicCancel):
            raise MoveFailed("the source has cancelled the consumer: was the queue deleted, or has its leader moved?")
        elif isinstance(method, ChannelClose | ConnectionClose):
            raise refusal("the source", method)

    def _begin_content(self, delivered: BasicDeliver, header: Frame) -> list[bytes]:
        publish = self._publish_of(delivered, header)
        if publish is None:
            self._method = None
            return []
        method, self._header = publish
        self._remaining = self._size = header.body_size
        if self._frame_max and len(self._header) > self._frame_max:
            raise MoveFailed(f"a content header of {len(self._header)} bytes exceeds the target's frame_max")
        return [encode_method(CHANNEL, method), self._header]

    def note(self, delivery_tag: int, size: int) -> None:
        """Note that a delivery is published as a whole."""
        self.unsettled.add(delivery_tag, size)

    def _bodies(self, frame: Frame) -> list[bytes]:
        if not self._frame_max or frame.size + OVERHEAD <= self._frame_max:
            return [frame.raw]
        payload, step = frame.payload, self._frame_max - OVERHEAD
        return [encode_frame(BODY, CHANNEL, payload[start : start + step]) for start in range(0, len(payload), step)]

    def confirm(self, frames: Iterable[Frame]) -> bytes:
        """Return the acknowledgements for the target's frames; set `failure` if the target does not take a message.

        RabbitMQ returns an unroutable message before it confirms it, without a number: no confirm behind a return is
        heeded.
        """
        output: list[bytes] = []
        for frame in frames:
            if frame.kind != METHOD or self.failure is not None:
                continue
            method = frame.method
            match method:
                case BasicAck():
                    before = len(self.unsettled)
                    acks = self.unsettled.confirm(method.delivery_tag, multiple=method.multiple)
                    self.moved += before - len(self.unsettled)
                    output += [encode_method(CHANNEL, ack) for ack in acks]
                case BasicNack():
                    self.failure = MoveFailed("the target has refused a message (basic.nack): is the queue full?")
                case BasicReturn():
                    text = f"the target has returned a message: {method.reply_code} {method.reply_text}"
                    self.failure = MoveFailed(text)
                case ChannelClose() | ConnectionClose():
                    self.failure = refusal("the target", method)
        return b"".join(output)


def refusal(side: str, method: ChannelClose | ConnectionClose) -> MoveFailed:
    """Return the failure of a move whose channel or connection is closed by one side."""
    return MoveFailed(f"{side} refuses: {method.reply_code} {method.reply_text}")
