"""The next steps of a recording, as far as it has been read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from amqproxy.replay.steps import Step


class Ahead(Protocol):
    """The part of the recording that has been read ahead."""

    def of_broker(self, stream: int) -> Iterator[Step]:
        """Yield the broker's next steps on a connection, from the one that is being played, and the connection's end.

        It ends where no more has been read ahead, with `NotReadYet` if more will be.
        """


class NotReadYet(Exception):
    """The capture has not been read so far."""
