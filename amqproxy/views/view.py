"""The interface of all views of captures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from amqproxy.capture.decoded import Decoded


class View(Protocol):
    """A view renders captures, one after the other, as lines without their ends.

    An item may hold several lines, with the ends between them.
    """

    def lines(self, decoded: Iterable[Decoded]) -> Iterator[str]:
        """Yield the lines of one capture as it is read."""

    def finish(self) -> Iterator[str]:
        """Yield the lines that follow the last capture."""
