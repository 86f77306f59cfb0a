"""What comes next in a recording, as far as it has been read."""

from __future__ import annotations

from typing import Protocol

from amqproxy.amqp010.methods import Method
from amqproxy.replay.steps import Step


class Ahead(Protocol):
    """What comes next in the recording."""

    def next_answer(self, stream: int, channel: int) -> Step | None:
        """The next command of the broker on a channel, or the end of its connection, as far as that is known.

        None if there is none, or none within what is read ahead. `NotReadYet` if that will be known later.
        """

    def next_of(self, stream: int, kinds: tuple[type[Method], ...]) -> Method | None:
        """The next of these controls of 0-10 that the broker sends on a connection, as `next_answer` has it."""

    def deliveries_before_answer(self, stream: int, channel: int) -> int:
        """How many basic.deliver the broker sends next on a channel before it sends something else there."""


class NotReadYet(Exception):
    """The capture has not been read so far."""
