"""Frames ↔ commands: a method, with its header and body if it carries content (section 4.2.6)."""

from __future__ import annotations

from amqproxy.amqp091.errors import PreconditionFailed, ProtocolError, ResourceError
from amqproxy.amqp091.frames import BODY, HEADER, METHOD, OVERHEAD, Frame, encode_frame
from amqproxy.amqp091.methods import Method
from amqproxy.amqp091.properties import NO_PROPERTIES, ContentHeader, Properties

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy import _cython as cython

MAX_BODY = 128 * 1024 * 1024
"""The largest body gathered into one command, in octets: RabbitMQ's own limit before version 4."""

MAX_FRAMES = 131_072
"""How many frames one command may be cut into: four times what such a body needs at the least
frame-max. Without it a peer could send empty body frames for ever."""


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
    cuts a content short (channel.close-ok) takes its place.
    """

    max_body: int = cython.declare(cython.longlong, visibility="readonly")
    _frames: list  # type: ignore[type-arg]
    _remaining: cython.ulonglong
    _is_skipping: cython.bint

    def __init__(self, max_body: int = MAX_BODY) -> None:
        self.max_body = max_body
        self._frames = []
        self._remaining = 0
        self._is_skipping = False

    def add(self, frame: Frame) -> Command | None:
        """The command that `frame` completes, if it does.

        `ProtocolError` when a method or header is malformed, 406 on the channel when a body is over
        `max_body`, 506 when it comes in over `MAX_FRAMES`; what is left of that content is skipped.
        """
        if frame.kind == METHOD:
            method = frame.method
            self._is_skipping = False
            if not method.carries_content:
                self._frames = []
                return Command(frame.channel, method, frames=[frame])
            self._frames = [frame]
            return None
        if self._is_skipping:
            return None
        self._frames.append(frame)
        if frame.kind == HEADER:
            self._remaining = frame.body_size
            if frame.body_size > self.max_body:
                text = f"message size {frame.body_size} is larger than the limit of {self.max_body}"
                raise self._given_up(PreconditionFailed(text, offset=frame.offset))
        else:
            self._remaining -= frame.size
        if self._remaining > 0:
            if len(self._frames) >= MAX_FRAMES:
                raise self._given_up(ResourceError(f"a message in more than {MAX_FRAMES} frames", offset=frame.offset))
            return None
        frames, self._frames = self._frames, []
        body = frames[2].payload if len(frames) == 3 else b"".join([each.payload for each in frames[2:]])
        return Command(frame.channel, frames[0].method, frames[1].header.properties, body, frames=frames)

    def _given_up(self, error: ProtocolError) -> ProtocolError:
        """`error`, with the method whose content is skipped from here on."""
        first = self._frames[0]
        error.channel = first.channel
        error.class_id, error.method_id = first.method.class_id, first.method.method_id
        self._frames = []
        self._is_skipping = True
        return error
