"""Conversion between frames and assemblies: a control, or a command with its header and its body (section 4.4.1)."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp010.errors import FramingError, ProtocolError, ResourceLimitExceeded
from amqproxy.amqp010.frame import (
    BODY,
    COMMAND,
    CONTROL,
    FIRST_SEGMENT,
    HEADER,
    LAST_SEGMENT,
    MAX_FRAME,
    OVERHEAD,
    Frame,
    decode_header,
    decode_method,
    encode_segment,
)
from amqproxy.amqp010.methods import METHODS, Method
from amqproxy.amqp010.properties import DeliveryProperties, Header, MessageProperties

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

MAX_BODY = 128 * 1024 * 1024
"""Largest body of one assembly, in bytes, as for 0-9-1."""

MAX_SEGMENT = 1024 * 1024
"""Largest segment other than a body, in bytes: a control, a command or a header. The protocol has no limit."""

MAX_FRAMES = 131_072
"""Maximum number of frames of one assembly. Without it, a peer could send empty frames for ever."""

_OVERHEAD = cython.declare(cython.Py_ssize_t, OVERHEAD)
_MAX_SEGMENT = cython.declare(cython.longlong, MAX_SEGMENT)
_BODY = cython.declare(cython.int, BODY)

NO_DELIVERY_PROPERTIES = DeliveryProperties()
NO_MESSAGE_PROPERTIES = MessageProperties()


@cython.auto_pickle(True)
@cython.cclass
class Assembly:
    """One control or command on one channel, with header and body if it has them, else `None`.

    `frames` are its received frames, empty for an assembly made by the proxy. They are decoded on first use, and parts
    that have not been received are missing.
    """

    def __init__(self, channel: int, method: Method, header: Header | None = None, body: bytes | None = None) -> None:
        self.channel = channel
        self.frames: list[Frame] = []
        self._method: Method | None = method
        self._header = header
        self._body = body

    @staticmethod
    def received(frames: list[Frame]) -> Assembly:
        """Return the assembly received in `frames`, all of one track; the list may still grow."""
        assembly: Assembly = Assembly.__new__(Assembly)
        assembly.channel = frames[0].channel
        assembly.frames = frames
        assembly._method = None
        assembly._header = None
        assembly._body = None
        return assembly

    def altered(
        self, method: Method | None = None, header: Header | None = None, body: bytes | None = None
    ) -> Assembly:
        """Return the assembly with the given parts replaced; it has no frames, and must be complete."""
        return Assembly(
            self.channel,
            self.method if method is None else method,
            self.header if header is None else header,
            (self.body if self.has_body else None) if body is None else body,
        )

    @property
    def kind(self) -> int:
        """CONTROL or COMMAND, the type of its first segment."""
        return self.frames[0].kind if self.frames else int(self.method.segment)

    @property
    def is_command(self) -> bool:
        return self.kind == COMMAND

    @property
    def index(self) -> int:
        """Index of the method; -1 if unknown."""
        if self.frames and self.frames[0].index >= 0:
            return self.frames[0].index
        if self._method is None:
            method = METHODS.get(int.from_bytes(self._segment(self.kind)[:2]))
            return -1 if method is None or method.segment != self.kind else method.index
        return int(self.method.index)

    @property
    def method(self) -> Any:
        """Decoded method; raises `ProtocolError` if malformed."""
        if self._method is None:
            first: Frame = self.frames[0]
            if first.is_whole_segment:
                self._method = first.method
            else:
                self._method = self._decoded(first.kind)
        return self._method

    @property
    def header(self) -> Header | None:
        """Decoded header; raises `ProtocolError` if malformed."""
        if self._header is None and len(self.frames) > 1:
            frame: Frame
            for frame in self.frames:
                if frame.kind == HEADER:
                    self._header = frame.header if frame.is_whole_segment else self._decoded(HEADER)
                    break
                if frame.kind == BODY:
                    break
        return self._header

    @property
    def properties(self) -> MessageProperties:
        """Message-properties set by the publisher; empty if there are none."""
        header = self.header
        return (header and header.message) or NO_MESSAGE_PROPERTIES

    @property
    def delivery_properties(self) -> DeliveryProperties:
        """Delivery-properties for the broker; empty if there are none."""
        header = self.header
        return (header and header.delivery) or NO_DELIVERY_PROPERTIES

    @property
    def has_body(self) -> bool:
        """Whether there is a body, possibly an empty one."""
        return self._body is not None or (bool(self.frames) and self._last().kind == BODY)

    @property
    def body(self) -> bytes:
        """Received bytes of the body; b"" if there is none."""
        if self._body is not None:
            return self._body
        if not self.has_body:
            return b""
        last = self._last()
        body = last.payload_bytes() if last.flags & 3 == 3 else self._segment(BODY)  # usually one frame
        if last.flags & 5 == 5:
            self._body = body
        return body

    @property
    def body_size(self) -> int:
        """Number of received body bytes."""
        if self._body is not None:
            return len(self._body)
        return sum([frame.size for frame in self.frames if frame.kind == BODY])

    @property
    def is_complete(self) -> bool:
        """Whether the assembly has been received completely."""
        return not self.frames or self._last().ends_assembly

    def encode(self, frame_max: int = MAX_FRAME) -> bytes:
        """Return the frames of the assembly, each of at most `frame_max` bytes (0: the maximum), concatenated."""
        segments = [(int(self.method.segment), self.method.encode())]
        if self.header is not None:
            segments.append((HEADER, self.header.encode()))
        if self.has_body:
            segments.append((BODY, self.body))
        pieces = []
        for number, (kind, payload) in enumerate(segments):
            flags = (0 if number else FIRST_SEGMENT) | (LAST_SEGMENT if number == len(segments) - 1 else 0)
            pieces.append(encode_segment(flags, kind, self.channel, payload, frame_max))
        return b"".join(pieces)

    def _last(self) -> Frame:
        frames = self.frames
        return frames[len(frames) - 1]

    def _segment(self, kind: int) -> bytes:
        """Return the received bytes of a segment."""
        return b"".join([frame.payload for frame in self.frames if frame.kind == kind])

    def _decoded(self, kind: int) -> Any:
        """Decode a method or header received in several frames."""
        data = self._segment(kind)
        try:
            return decode_header(data) if kind == HEADER else decode_method(kind, data)
        except ProtocolError as error:
            error.channel = self.channel
            error.offset = self._place(kind, error.offset or 0)
            raise

    def _place(self, kind: int, position: int) -> int:
        """Return the stream offset of a byte of a segment."""
        offset = 0
        for frame in self.frames:
            if frame.kind == kind:
                offset = frame.offset + OVERHEAD + position
                if position < frame.size:
                    break
                position -= frame.size
        return offset

    def __repr__(self) -> str:
        return f"<Assembly {self.method!r} channel={self.channel} body={self.body_size} bytes>"


@cython.auto_pickle(True)
@cython.cclass
class AssemblyReader:
    """One direction of one channel: reads frames in legal order, and returns complete assemblies.

    Tracks may alternate; a `FrameReader` must have checked the order of frames on each. At the start of a capture, or
    after a gap, frames of an assembly that began earlier are skipped: `skipped` counts them.
    """

    def __init__(self, max_body: int = MAX_BODY) -> None:
        self.max_body = max_body
        self.skipped = 0
        self._controls: list[Frame] = []
        self._commands: list[Frame] = []
        self._control_size = 0
        self._command_size = 0

    @property
    def is_mid_assembly(self) -> bool:
        """Whether any assembly is incomplete."""
        return bool(self._controls or self._commands)

    @property
    def size(self) -> int:
        """Approximate number of received bytes of incomplete assemblies: those of their last segments."""
        return (self._command_size if self._commands else 0) + (self._control_size if self._controls else 0)

    @property
    def partial_command(self) -> Assembly | None:
        """The incomplete command, as far as received."""
        return Assembly.received(self._commands) if self._commands else None

    def add(self, frame: Frame) -> Assembly | None:
        """Return the assembly that `frame` completes, if any.

        Raise `ProtocolError` if a method or header is malformed, 506 on the session if a command is too large or has
        more than `MAX_FRAMES` frames, 501 on the connection if a control does; the rest of that assembly is skipped.
        """
        frames: list[Frame] = self._commands if frame.track else self._controls
        assembly: Assembly
        if frame.flags & 10 == 10:
            if frame.flags & 5 == 5:  # an assembly of one frame
                if frames:
                    self._drop(frame.track)
                assembly = Assembly.received([frame])
                _ = assembly.method  # malformed methods are detected here, not on first use
                return assembly
            frames = []
            if frame.track:
                self._commands = frames
            else:
                self._controls = frames
        elif not frames:
            self.skipped += 1
            return None
        frames.append(frame)
        size: cython.longlong = frame.length() - _OVERHEAD
        if not frame.flags & 2:  # it continues the segment
            size += self._command_size if frame.track else self._control_size
        if frame.track:
            self._command_size = size
        else:
            self._control_size = size
        limit: cython.longlong = self.max_body if frame.kind == _BODY else _MAX_SEGMENT
        if size > limit:
            raise self._given_up(frame, f"a segment of more than {limit} bytes")
        if len(frames) >= MAX_FRAMES:
            raise self._given_up(frame, f"an assembly in more than {MAX_FRAMES} frames")
        if frame.flags & 5 != 5:
            return None
        self._drop(frame.track)
        assembly = Assembly.received(frames)
        _ = assembly.method
        _ = assembly.header
        return assembly

    def _drop(self, track: cython.int) -> None:
        if track:
            self._commands = []
        else:
            self._controls = []

    def _given_up(self, frame: Frame, text: str) -> ProtocolError:
        """Return the error for an assembly that is too large, and skip the rest of it."""
        first: Frame = self._commands[0] if frame.track else self._controls[0]
        self._drop(frame.track)
        kind = FramingError if frame.kind == CONTROL else ResourceLimitExceeded
        start = first.payload[:2].ljust(2, b"\x00")
        return kind(text, channel=frame.channel, offset=frame.offset, class_code=start[0], method_code=start[1])
