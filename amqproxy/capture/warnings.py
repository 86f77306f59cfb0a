"""Problems in a capture file: an error that ends the reading, or a warning that does not."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TypeAlias

import msgspec


class CaptureError(Exception):
    """The file cannot be read on from here.

    `offset` counts bytes of the capture itself: of what a compressed file holds, not of the compressed file.
    """

    def __init__(self, file: str, offset: int, reason: str, remedy: str) -> None:
        super().__init__(file, offset, reason, remedy)
        self.file = file
        self.offset = offset
        self.reason = reason
        self.remedy = remedy

    def __str__(self) -> str:
        where = f" (at offset {self.offset})" if self.offset else ""
        return f"{self.file}: {self.reason}{where}: {self.remedy}"


class WarningKind(StrEnum):
    """Why a capture holds less than it seems to."""

    CUT_SHORT = "cut-short"
    """The file ends inside a packet or block: a live capture, or a copy that did not finish."""
    TRAILING = "trailing"
    """Something else follows the compressed data; it was not read."""
    GONE = "gone"
    """A file of a directory was removed while the directory was read."""
    LINK_TYPE = "link-type"
    """Packets of an unsupported link type, reported once for each type."""
    ENGINE = "engine"
    """tshark is needed for what the capture holds, and it is not there."""
    FRAGMENTS = "fragments"
    """IP packets came in fragments, and some fragments are not in the capture."""
    HEADERS = "headers"
    """Packets were captured without the whole of their TCP header."""
    STREAMS = "streams"
    """More TCP streams at once than are kept; the quietest were given up."""
    IGNORED = "ignored"
    """TCP streams without AMQP were left out."""


class CaptureWarning(msgspec.Struct, frozen=True):
    """One thing a person should know about a capture; `offset` is -1 where no place is meant."""

    kind: WarningKind
    file: str
    offset: int
    text: str

    def __str__(self) -> str:
        where = f" (at offset {self.offset})" if self.offset >= 0 else ""
        return f"{self.file}: {self.text}{where}"


OnWarning: TypeAlias = Callable[[CaptureWarning], None]


def ignore_warning(notice: CaptureWarning) -> None:
    """An `OnWarning` that ignores the warning."""
