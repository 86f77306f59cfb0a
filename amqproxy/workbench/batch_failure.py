"""The failure of a batch in the middle, with the outcomes that are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amqproxy.moving.message_forwarder import MoveFailed


class BatchFailure(MoveFailed):
    """A batch that cannot be completed. `outcomes` has one outcome a message, `None` where it is unknown."""

    def __init__(self, text: str, outcomes: Sequence[Any]) -> None:
        super().__init__(text)
        self.outcomes = outcomes
