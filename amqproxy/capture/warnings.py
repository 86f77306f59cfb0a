"""Problems of a capture file: an error that ends the reading, or a warning that does not."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TypeAlias

import msgspec


class CaptureError(Exception):
    """The file cannot be read beyond this point.

    `offset` counts bytes of the capture itself: of the decompressed content, not of the compressed file.
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
    """Reasons for which a capture holds less than expected."""

    CUT_SHORT = "cut-short"
    """The file ends inside a packet or block: a live capture, or a copy that did not finish."""
    TRAILING = "trailing"
    """Other data follows the compressed data; it was not read."""
    GONE = "gone"
    """A file of a directory was removed while the directory was read."""
    LINK_TYPE = "link-type"
    """Packets of an unsupported link type, reported once for each type."""
    ENGINE = "engine"
    """The capture needs tshark, which is not available."""
    FRAGMENTS = "fragments"
    """IP packets arrived in fragments, and some fragments are not in the capture."""
    HEADERS = "headers"
    """Packets were captured without their complete TCP header."""
    STREAMS = "streams"
    """More TCP streams were open at once than are kept; the quietest were given up."""
    SNAPSHOT = "snapshot"
    """The recorded state of a connection cannot be read; reported once for each section of a file."""
    IGNORED = "ignored"
    """TCP streams without AMQP were left out."""


class CaptureWarning(msgspec.Struct, frozen=True):
    """A warning about a capture; `offset` is -1 if it concerns no particular place."""

    kind: WarningKind
    file: str
    offset: int
    text: str

    def __str__(self) -> str:
        where = f" (at offset {self.offset})" if self.offset >= 0 else ""
        return f"{self.file}: {self.text}{where}"


OnWarning: TypeAlias = Callable[[CaptureWarning], None]


def ignore_warning(notice: CaptureWarning) -> None:
    """Ignore the warning."""
