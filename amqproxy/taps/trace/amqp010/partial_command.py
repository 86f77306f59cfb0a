"""Incremental assembly of a command, with a transfer's header and body, from its frames."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp010.errors import ResourceLimitExceeded
from amqproxy.amqp010.frame import BODY, HEADER, Frame, decode_header, decode_method
from amqproxy.amqp010.properties import NO_PROPERTIES, Header
from amqproxy.taps.trace.content import BodyDigest

MAX_SEGMENT = 1024 * 1024
"""Limit in bytes on a command or header that spans several frames."""


class PartialCommand:
    """A command assembled from its frames, which come in order. Section 4.4.1.

    It `is_joined` if its first frames were not seen: its `method` is then known from a snapshot, or unknown, and later
    frames only show whether it `has_content`. The first `most` bytes of the body are kept, and if it `is_digested`, a
    digest of the whole body. `size` counts the body's bytes, `wire_size` those of the command and its header.
    `position` is the command's, `None` if unknown.
    """

    __slots__ = (
        "_body",
        "_hash",
        "_most",
        "_pieces",
        "has_content",
        "header",
        "is_joined",
        "method",
        "position",
        "size",
        "wire_size",
    )

    def __init__(self, position: int | None, most: int, *, is_digested: bool) -> None:
        self.position = position
        self.method: Any = None
        self.header: Header = NO_PROPERTIES
        self.size = 0
        self.wire_size = 0
        self.is_joined = False
        self.has_content = False
        self._most = most
        self._body: bytes | bytearray = b""
        self._hash = BodyDigest() if is_digested else None
        self._pieces = b""

    def join(self, method: Any, size: int) -> None:
        """Take the method of a command of which some frames have passed, of `size` bytes; `None` if it is unknown."""
        self.method = method
        self.wire_size = size
        self.is_joined = True

    def add(self, frame: Frame) -> bool:
        """Take the next frame; return whether the command is complete. Raises `ProtocolError` if it is malformed."""
        kind = frame.kind
        if self.is_joined:
            self.has_content |= kind in (HEADER, BODY)
            return frame.ends_assembly
        if kind == BODY:
            self._add_body(frame)
            return frame.ends_assembly
        self.wire_size += frame.size
        if frame.is_whole_segment:
            found = frame.header if kind == HEADER else frame.method
        else:
            if self.wire_size > MAX_SEGMENT:
                raise ResourceLimitExceeded(f"a segment of more than {MAX_SEGMENT} bytes", channel=frame.channel)
            self._pieces += frame.payload
            if not frame.is_last_frame:
                return False
            data, self._pieces = self._pieces, b""
            found = decode_header(data) if kind == HEADER else decode_method(kind, data)
        if kind == HEADER:
            self.header = found
        else:
            self.method = found
        return frame.ends_assembly

    def _add_body(self, frame: Frame) -> None:
        self.size += frame.size
        has_room = len(self._body) < self._most
        if not has_room and self._hash is None:
            return
        payload = frame.known_payload
        if frame.lost:
            self._hash = None
            self._most = min(self._most, len(self._body) + len(payload))
        elif self._hash is not None:
            self._hash.update(payload)
        if has_room:
            if not self._body:
                self._body = payload[: self._most]
            else:
                self._body = bytearray(self._body) if isinstance(self._body, bytes) else self._body
                self._body += payload[: self._most - len(self._body)]

    @property
    def body(self) -> bytes:
        """The beginning of the body."""
        return bytes(self._body)

    @property
    def digest(self) -> bytes:
        """Digest of the body received so far; empty if none is made."""
        return b"" if self._hash is None else self._hash.digest()
