"""What all views of captures are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from amqproxy.capture.decoded import Decoded


class View(Protocol):
    """Makes lines of captures, one after the other, without their ends; an item may be several, with the ends between
    them.
    """

    def lines(self, decoded: Iterable[Decoded]) -> Iterator[str]:
        """The lines of one capture, as it is read."""

    def finish(self) -> Iterator[str]:
        """The lines that come after the last capture."""
