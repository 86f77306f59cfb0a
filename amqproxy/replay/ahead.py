"""Steps that come next in a recording, as far as it has been read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from amqproxy.replay.steps import Step


class Ahead(Protocol):
    """The part of the recording that has been read ahead."""

    def of_broker(self, stream: int) -> Iterator[Step]:
        """Yield what the broker of a connection sends next, the step that is being played first, and the end of it.

        It ends where nothing more is read ahead, with `NotReadYet` if that is going to be.
        """


class NotReadYet(Exception):
    """The capture has not been read so far."""
