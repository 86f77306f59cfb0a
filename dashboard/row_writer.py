"""Frames as rows of JSON: the objects of `decode --json`, each with the number of its row in `seq`."""

from __future__ import annotations

from collections.abc import Sequence

from amqproxy.capture.decoded import Decoded
from amqproxy.capture.json_lines import JSONLines
from dashboard.missing_frames import MissingFrames

ROW_BODY = 200
"""Bytes of a body frame that its row has."""


class RowWriter:
    """Makes rows of what was decoded, with the first `body` bytes of each body frame."""

    def __init__(self, body: int = ROW_BODY) -> None:
        self._lines = JSONLines(body)

    def lines(self, decoded: Decoded) -> bytes:
        """The same as lines of JSON, without numbers."""
        self._lines.add(decoded)
        return self._lines.take()

    def rows(self, decoded: Decoded | MissingFrames, seqs: Sequence[int]) -> list[bytes]:
        """The rows of what passed, whose numbers are given."""
        if isinstance(decoded, MissingFrames):
            return [decoded.to_json(seqs[0])]
        self._lines.add(decoded)
        lines = self._lines.take().splitlines()
        return [b'{"seq":%d,%b' % (seq, line[1:]) for seq, line in zip(seqs, lines, strict=True)]


def joined(rows: Sequence[bytes]) -> bytes:
    """Rows as one array of JSON."""
    return b"[" + b",".join(rows) + b"]"
