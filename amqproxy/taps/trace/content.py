"""A method with its header and its body, put together from frames as they come."""

from __future__ import annotations

from hashlib import blake2b

from amqproxy.amqp091.methods import Method
from amqproxy.amqp091.properties import NO_PROPERTIES, Properties

DIGEST_SIZE = 16
"""Size of the digest of a body, in bytes."""


DIGEST_BLOCK = 8192
"""Size in bytes of the blocks in which a body is digested; up to one block is kept until it is complete."""


class BodyDigest:
    """Incremental digest of a body, independent of how it is split; unlike a hash of hashlib, it can be pickled.

    The digest of a body of up to DIGEST_BLOCK bytes is its BLAKE2b. In a longer one, each block, and the rest of at
    most a block, is digested with the digest of the preceding blocks prefixed to it.
    """

    __slots__ = ("_before", "_rest")

    def __init__(self) -> None:
        self._before = b""
        self._rest = b""

    def update(self, piece: bytes) -> None:
        """Add the next bytes of the body."""
        data = self._rest + piece if self._rest else piece
        if len(data) <= DIGEST_BLOCK:
            self._rest = data
            return
        view = memoryview(data)
        last = (len(data) - 1) // DIGEST_BLOCK * DIGEST_BLOCK
        before = self._before
        for start in range(0, last, DIGEST_BLOCK):
            made = blake2b(before, digest_size=DIGEST_SIZE)
            made.update(view[start : start + DIGEST_BLOCK])
            before = made.digest()
        self._before, self._rest = before, bytes(view[last:])

    def digest(self) -> bytes:
        """Return the digest of all bytes added so far."""
        return blake2b(self._before + self._rest, digest_size=DIGEST_SIZE).digest()


class PartialContent:
    """A method whose content is incomplete. Section 4.2.6.

    The first `most` bytes of the body are kept, and if it `is_digested`, a digest of the whole body.
    """

    __slots__ = ("_body", "_hash", "_most", "_remaining", "method", "properties", "size")

    def __init__(self, method: Method, most: int, *, is_digested: bool = False) -> None:
        self.method = method
        self.properties: Properties = NO_PROPERTIES
        self.size = 0
        self._most = most
        self._remaining = -1
        self._body: bytes | bytearray = b""
        self._hash = BodyDigest() if is_digested else None

    @property
    def has_header(self) -> bool:
        return self._remaining >= 0

    @property
    def is_complete(self) -> bool:
        return self._remaining == 0

    @property
    def remaining(self) -> int:
        """Number of body bytes still missing; negative before the header."""
        return self._remaining

    @property
    def body(self) -> bytes:
        """The beginning of the body."""
        return bytes(self._body)

    def add_header(self, size: int, properties: Properties) -> bool:
        """Take the header; return whether the content is complete, since it has no body."""
        self.size = self._remaining = size
        self.properties = properties
        return not size

    def add_body(self, size: int, payload: bytes | None) -> bool:
        """Take `size` more body bytes; return whether the content is complete. `payload` may be `None` if none is kept.

        If `payload` is shorter than `size`, the rest is unknown: later bytes are not kept, and the digest stays empty.
        """
        remaining = self._remaining = self._remaining - size if size < self._remaining else 0
        if payload is not None and len(payload) < size:
            self._hash = None
            self._most = min(self._most, len(self._body) + len(payload))
        if payload and self._hash is not None:
            self._hash.update(payload)
        if payload and len(self._body) < self._most:
            if not self._body:
                self._body = payload[: self._most]
            else:
                self._body = bytearray(self._body) if isinstance(self._body, bytes) else self._body
                self._body += payload[: self._most - len(self._body)]
        return not remaining

    def restore(self, size: int, properties: Properties, remaining: int) -> None:
        """Take a header that came before; the beginning of the body is unknown unless all of it remains."""
        self.add_header(size, properties)
        if remaining < size:
            self.add_body(size - remaining, b"")

    @property
    def wants_body(self) -> bool:
        return self._hash is not None or len(self._body) < self._most

    @property
    def digest(self) -> bytes:
        """Digest of the body received so far; empty if none is made."""
        return b"" if self._hash is None else self._hash.digest()
