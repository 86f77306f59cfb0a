"""Frames ↔ commands: a method, with its header and body if it carries content (section 4.2.6)."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp091.errors import PreconditionFailed, Scope
from amqproxy.amqp091.frames import BODY, HEADER, METHOD, OVERHEAD, Frame, encode_frame
from amqproxy.amqp091.methods import Method
from amqproxy.amqp091.properties import NO_PROPERTIES, ContentHeader, Properties

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy import _cython as cython

MAX_BODY = 128 * 1024 * 1024
"""The largest body gathered into one command, in octets: RabbitMQ's own limit before version 4."""


@cython.final
@cython.cclass
class Command:
    """One method on one channel, with its content's header and body when it carries content.

    `frames` are the frames it came in, empty when it was made here.
    """

    channel: int = cython.declare(cython.int, visibility="readonly")
    method: Method = cython.declare(object, visibility="readonly")
    header: ContentHeader | None = cython.declare(object, visibility="readonly")
    body: bytes = cython.declare(bytes, visibility="readonly")
    frames: list[Frame] = cython.declare(list, visibility="readonly")

    def __init__(
        self,
        channel: int,
        method: Method,
        properties: Properties = NO_PROPERTIES,
        body: bytes = b"",
        *,
        frames: list[Frame] | None = None,
    ) -> None:
        self.channel = channel
        self.method = method
        self.body = body
        self.header = ContentHeader(len(body), properties) if method.carries_content else None
        self.frames = frames or []

    @property
    def properties(self) -> Properties:
        return NO_PROPERTIES if self.header is None else self.header.properties

    def encode(self, frame_max: int) -> bytes:
        """The command's frames, none of them over `frame_max` octets (0: no limit), end to end."""
        method = encode_frame(METHOD, self.channel, self.method.encode())
        if self.header is None:
            return method
        parts = [method, encode_frame(HEADER, self.channel, self.header.encode())]
        step = frame_max - OVERHEAD if frame_max else len(self.body)
        for start in range(0, len(self.body), step or 1):
            parts.append(encode_frame(BODY, self.channel, self.body[start : start + step]))
        return b"".join(parts)

    def __repr__(self) -> str:
        return f"<Command {self.method!r} channel={self.channel} body={len(self.body)} octets>"


@cython.final
@cython.cclass
class CommandReader:
    """One direction of one channel: frames in their legal order in, whole commands out.

    Whoever feeds it has had the order checked, by a `FrameReader` or a `Connection`. A method that
    cuts a content short (channel.close) takes its place.
    """

    max_body: int = cython.declare(cython.longlong, visibility="readonly")
    _frames: list[Any]
    _bodies: list[Any]
    _remaining: cython.longlong

    def __init__(self, max_body: int = MAX_BODY) -> None:
        self.max_body = max_body
        self._frames = []
        self._bodies = []
        self._remaining = 0

    def add(self, frame: Frame) -> Command | None:
        """The command that `frame` completes, if it does.

        `ProtocolError` when a method or header is malformed, and 406 on the channel when a body is
        over `max_body`.
        """
        if frame.kind == METHOD:
            method = frame.method
            if not method.carries_content:
                self._frames = []
                return Command(frame.channel, method, frames=[frame])
            self._frames = [frame]
            self._bodies = []
            return None
        self._frames.append(frame)
        if frame.kind == HEADER:
            self._remaining = frame.body_size
            if frame.body_size > self.max_body:
                raise PreconditionFailed(
                    f"message size {frame.body_size} is larger than the limit of {self.max_body}",
                    channel=frame.channel,
                    offset=frame.offset,
                    scope=Scope.CHANNEL,
                )
        else:
            self._bodies.append(frame.payload)
            self._remaining -= frame.size
        if self._remaining > 0:
            return None
        frames, self._frames = self._frames, []
        bodies, self._bodies = self._bodies, []
        body = bodies[0] if len(bodies) == 1 else b"".join(bodies)
        return Command(frame.channel, frames[0].method, frames[1].header.properties, body, frames=frames)
