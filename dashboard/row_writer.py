"""Rows of JSON: the objects of `decode --json`, with their row numbers in `seq`."""

from __future__ import annotations

from collections.abc import Sequence

from amqproxy.capture.decoded import Decoded
from amqproxy.capture.json_lines import JSONLines
from amqproxy.dashboard.missing_frames import MissingFrames

ROW_BODY = 200
"""Maximum size of a frame's body in its row, in bytes."""


class RowWriter:
    """Encodes decoded traffic as rows, with the first `body` bytes of each body frame."""

    def __init__(self, body: int = ROW_BODY) -> None:
        self._lines = JSONLines(body)

    def lines(self, decoded: Decoded) -> bytes:
        """Encode decoded traffic as JSON lines without row numbers."""
        self._lines.add(decoded)
        return self._lines.take()

    def rows(self, decoded: Decoded | MissingFrames, seqs: Sequence[int]) -> list[bytes]:
        """Encode decoded traffic as rows with these numbers."""
        if isinstance(decoded, MissingFrames):
            return [decoded.to_json(seqs[0])]
        self._lines.add(decoded)
        lines = self._lines.take().splitlines()
        return [b'{"seq":%d,%b' % (seq, line[1:]) for seq, line in zip(seqs, lines, strict=True)]


def joined(rows: Sequence[bytes]) -> bytes:
    """Join rows into one JSON array."""
    return b"[" + b",".join(rows) + b"]"
