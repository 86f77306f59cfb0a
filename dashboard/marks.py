"""Marks of rows: comments that viewers have given to frames, and that exported captures have in their packets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from amqproxy.capture.decoded import Decoded, DecodedFrames
from amqproxy.capture.packet_comment import PREFIX

MAX_MARKS = 1000
"""Maximum number of marked rows of a source."""

MAX_TEXT = 1000
"""Maximum length of a comment, in characters."""


class TooManyMarks(Exception):
    """The limit on marks is reached."""


class Marks:
    """The marked rows of one source, by number; all viewers have the same."""

    def __init__(self) -> None:
        self.texts: dict[int, str] = {}

    def put(self, seq: int, text: str) -> None:
        """Mark a row, or replace its comment. `TooManyMarks` beyond the limit."""
        if seq not in self.texts and len(self.texts) >= MAX_MARKS:
            raise TooManyMarks(f"{MAX_MARKS} rows are marked already: remove some marks")
        # Readers take comments with this prefix as those of a recording.
        self.texts[seq] = text.removeprefix(PREFIX)[:MAX_TEXT]

    def remove(self, seq: int) -> None:
        """Remove the mark of a row, if it has one."""
        self.texts.pop(seq, None)

    def read(self, seq: int, comments: Iterable[str]) -> None:
        """Mark a row as the comments of its packet do, which were read from a capture; beyond the limit, none is."""
        with suppress(TooManyMarks):
            self.put(seq, "\n".join(comments))

    def split(self, decoded: Decoded, seqs: Sequence[int]) -> Iterator[tuple[Decoded, tuple[str, ...]]]:
        """Yield the parts of a row or a batch of rows with their comments; a marked frame is a part by itself."""
        marked = [place for place, seq in enumerate(seqs) if seq in self.texts] if self.texts else []
        if not isinstance(decoded, DecodedFrames) or len(seqs) == 1:
            yield decoded, self.of(seqs) if marked else ()
            return
        start = 0
        for place in (*marked, len(seqs)):
            if start < place:
                yield _part(decoded, start, place), ()
            if place < len(seqs):
                yield _part(decoded, place, place + 1), self.of(seqs[place : place + 1])
            start = place + 1

    def of(self, seqs: Iterable[int]) -> tuple[str, ...]:
        """Return the comments of these rows."""
        return tuple(self.texts[seq] or "marked" for seq in seqs if seq in self.texts)


def _part(decoded: DecodedFrames, start: int, end: int) -> DecodedFrames:
    if not start and end == len(decoded.frames):
        return decoded
    return decoded.at(range(start, end))
