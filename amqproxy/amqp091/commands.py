"""Conversion between frames and commands: a method, with its header and body if it carries content (section 4.2.6)."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp091.errors import PreconditionFailed, ProtocolError, ResourceError
from amqproxy.amqp091.frame import BODY, HEADER, METHOD, OVERHEAD, Frame, encode_frame
from amqproxy.amqp091.methods import BY_INDEX, Method
from amqproxy.amqp091.properties import NO_PROPERTIES, ContentHeader, Properties

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

MAX_BODY = 128 * 1024 * 1024
"""Largest body of one command in bytes: RabbitMQ's own limit before version 4."""

MAX_FRAMES = 131_072
"""Maximum number of frames of one command: four times as many as such a body needs at the smallest frame-max.
Without it, a peer could send empty body frames for ever.
"""


@cython.final
@cython.auto_pickle(True)
@cython.cclass
class Command:
    """One method on one channel, with header and body if it carries content.

    `frames` are its received frames, empty for a command made by the proxy. They are decoded on first use, and parts
    that have not been received are missing: `header` is `None` before the header frame, `body` is its received part.
    """

    channel: int = cython.declare(cython.int, visibility="readonly")
    frames: list[Frame] = cython.declare(list, visibility="readonly")
    _method: object
    _header: ContentHeader | None
    _body: bytes | None

    def __init__(
        self,
        channel: int,
        method: Method,
        properties: Properties = NO_PROPERTIES,
        body: bytes = b"",
    ) -> None:
        self.channel = channel
        self.frames = []
        self._method = method
        self._header = ContentHeader(len(body), properties) if method.carries_content else None
        self._body = body

    @staticmethod
    def received(frames: list[Frame]) -> Command:
        """Return the command received in `frames`, starting with its method; the list may still grow."""
        command: Command = Command.__new__(Command)
        command.channel = frames[0].channel
        command.frames = frames
        command._method = None
        command._header = None
        command._body = None
        return command

    def altered(
        self, method: Method | None = None, properties: Properties | None = None, body: bytes | None = None
    ) -> Command:
        """Return the command with the given parts replaced. Its frames are still the received ones, and may still grow.

        With a `body`, it has no frames: the body is the whole content, and no further frames are read.
        """
        if body is not None:
            return Command(
                self.channel,
                self.method if method is None else method,
                self.properties if properties is None else properties,
                body,
            )
        command: Command = Command.__new__(Command)
        command.channel = self.channel
        command.frames = self.frames
        command._method = self._method if method is None else method
        command._header = self._header if properties is None else ContentHeader(self.body_size, properties)
        command._body = self._body
        return command

    @property
    def method(self) -> Any:
        """Decoded method; raises `ProtocolError` if malformed."""
        if self._method is None:
            self._method = self.frames[0].method
        return self._method

    @property
    def index(self) -> int:
        """Index of the method, known without decoding."""
        if self.frames:
            frame: Frame = self.frames[0]
            return frame.index
        return int(self.method.index)

    @property
    def header(self) -> ContentHeader | None:
        """Decoded header; raises `ProtocolError` if malformed."""
        if self._header is None and len(self.frames) > 1:
            self._header = self.frames[1].header
        return self._header

    @property
    def properties(self) -> Properties:
        header = self.header
        return NO_PROPERTIES if header is None else header.properties

    @property
    def body(self) -> bytes:
        """Received bytes of the body."""
        if self._body is None:
            frames = self.frames
            body = frames[2].payload if len(frames) == 3 else b"".join([each.payload for each in frames[2:]])
            if not self.is_complete:
                return body
            self._body = body
        return self._body

    @property
    def body_size(self) -> int:
        """Body size announced in the header."""
        if self._body is not None:
            return len(self._body)
        return self.frames[1].body_size if len(self.frames) > 1 else 0

    @property
    def is_complete(self) -> bool:
        """Whether the command has been received completely."""
        frames = self.frames
        if not frames or not BY_INDEX[self.index].carries_content:
            return True
        if len(frames) == 1:
            return False
        return sum([frame.size for frame in frames[2:]]) >= frames[1].body_size

    def encode(self, frame_max: int) -> bytes:
        """Return the frames of the command, each of at most `frame_max` bytes (0: no limit), concatenated."""
        method = encode_frame(METHOD, self.channel, self.method.encode())
        header = self.header
        if header is None:
            return method
        body = self.body
        parts = [method, encode_frame(HEADER, self.channel, header.encode())]
        step = frame_max - OVERHEAD if frame_max else len(body)
        for start in range(0, len(body), step or 1):
            parts.append(encode_frame(BODY, self.channel, body[start : start + step]))
        return b"".join(parts)

    def __repr__(self) -> str:
        return f"<Command {self.method!r} channel={self.channel} body={self.body_size} bytes>"


@cython.final
@cython.auto_pickle(True)
@cython.cclass
class CommandReader:
    """One direction of one channel: reads frames in legal order, and returns complete commands.

    A `FrameReader` or a `Connection` must have checked the order of frames. A method that interrupts a content
    (channel.close-ok) replaces it.
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
        """Return the command that `frame` completes, if any.

        Raise `ProtocolError` if a method or header is malformed, 406 on the channel if a body exceeds `max_body`, 506
        if it has more than `MAX_FRAMES` frames; the rest of that content is skipped.
        """
        if frame.kind == METHOD:
            method = frame.method
            self._is_skipping = False
            if not method.carries_content:
                self._frames = []
                return Command.received([frame])
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
            self._remaining -= min(self._remaining, frame.size)  # a capture with gaps may have more than was announced
        if self._remaining > 0:
            if len(self._frames) >= MAX_FRAMES:
                raise self._given_up(ResourceError(f"a message in more than {MAX_FRAMES} frames", offset=frame.offset))
            return None
        frames, self._frames = self._frames, []
        command = Command.received(frames)
        _ = command.header  # malformed content is detected here, not on first use
        return command

    def _given_up(self, error: ProtocolError) -> ProtocolError:
        """Return `error` with the method whose content is skipped from now on."""
        first = self._frames[0]
        error.channel = first.channel
        error.class_id, error.method_id = first.method.class_id, first.method.method_id
        self._frames = []
        self._is_skipping = True
        return error
