"""Marks of rows: comments that viewers have given to frames, and that exported captures have in their packets."""

from __future__ import annotations

from collections.abc import Iterable

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

    def of(self, seqs: Iterable[int]) -> tuple[str, ...]:
        """Return the comments of these rows."""
        if not self.texts:
            return ()
        return tuple(self.texts[seq] or "marked" for seq in seqs if seq in self.texts)
