"""Credit of one destination in messages and bytes (section 10.2, message.set-flow-mode and message.flow).

The observer is between the peers, so that it sees credit before the sender does, and messages after: the count is an
upper bound of the sender's credit.
"""

from __future__ import annotations

from amqproxy.amqp010.command_ids import CommandIds
from amqproxy.amqp010.domains import CreditUnit, FlowMode
from amqproxy.amqp010.errors import IllegalState, NotAllowed, ResourceLimitExceeded

INFINITE = 0xFFFF_FFFF
"""Value of a message.flow that lifts a limit."""

MAX_PENDING = 1024
"""Maximum number of incomplete message.stop and message.flush of one destination."""

MAX_IN_FLIGHT = 65_536
"""Maximum number of incomplete window-mode messages that are counted."""


class Credit:
    """Credit of one destination: `messages` and `size` (bytes), `None` if unlimited."""

    __slots__ = ("_in_flight", "_since", "messages", "mode", "size")

    def __init__(self, amount: int | None = 0) -> None:
        """Start with `amount` of both: none for a subscription, unlimited (`None`) for a client's destination."""
        self.mode = FlowMode.WINDOW
        self.messages = amount
        self.size = amount
        self._in_flight: dict[int, int] = {}
        self._since: dict[int, Credit] = {}

    @property
    def is_unlimited(self) -> bool:
        """Whether neither messages nor bytes are limited."""
        return self.messages is None and self.size is None

    def set_mode(self, mode: int) -> None:
        """Process a message.set-flow-mode, which requires that no credit is left."""
        fault = None
        if mode not in (FlowMode.CREDIT, FlowMode.WINDOW):
            return  # an invalid value, reported elsewhere
        if self.messages or self.size:
            fault = IllegalState(
                f"the flow mode set while there is credit for {_text(self.messages)} messages"
                f" and {_text(self.size)} bytes",
                section="10.2 message.set-flow-mode, mode-switching",
            )
        self.mode = FlowMode(mode)
        if fault:
            raise fault

    def add(self, unit: int, value: int | None) -> None:
        """Process a message.flow; `None` and `INFINITE` lift the limit."""
        is_infinite = value is None or value == INFINITE
        for each in (self, *self._since.values()):
            if unit == CreditUnit.MESSAGE:
                each.messages = None if is_infinite or each.messages is None else each.messages + (value or 0)
            else:
                each.size = None if is_infinite or each.size is None else each.size + (value or 0)

    def stop(self, position: int) -> None:
        """Process a message.stop or message.flush: on its completion, only credit added since then remains."""
        if len(self._since) >= MAX_PENDING:
            raise ResourceLimitExceeded(f"more than {MAX_PENDING} message.stop and message.flush incomplete")
        self._since[position] = Credit()

    def stopped(self, position: int) -> None:
        """Process the completion of a message.stop or message.flush."""
        since = self._since.pop(position, None)
        if since is not None:
            self.messages, self.size = since.messages, since.size

    def spend(self, position: int, size: int, *, is_first: bool = True) -> None:
        """Process a transfer of `size` bytes; only the first fragment of a message needs message credit."""
        messages, bytes_left = self.messages, self.size
        if messages is None and bytes_left is None:
            return
        if self.mode is FlowMode.WINDOW:
            self._in_flight[position] = size
            if len(self._in_flight) > MAX_IN_FLIGHT:
                self._in_flight.clear()
                self.messages = self.size = None
                return
        is_short = False
        if messages is not None and is_first:
            is_short = messages < 1
            self.messages = max(messages - 1, 0)
        if bytes_left is not None:
            is_short = is_short or bytes_left < size
            self.size = max(bytes_left - size, 0)
        if is_short:
            raise NotAllowed(
                f"a message of {size} bytes where there is credit for {_text(messages)} messages and"
                f" {_text(bytes_left)} bytes",
                section="10.2 message.set-flow-mode, byte-accounting",
            )

    def completed(self, ids: range | CommandIds) -> None:
        """Process the completion of transfers, which in window mode returns their credit."""
        in_flight = self._in_flight
        if not in_flight:
            return
        if isinstance(ids, range) and len(ids) < len(in_flight):
            ended = list(ids)
        else:
            ended = [each for each in in_flight if each in ids]
        for position in ended:
            size = in_flight.pop(position, None)
            if size is not None:
                self.messages = None if self.messages is None else self.messages + 1
                self.size = None if self.size is None else self.size + size


def _text(amount: int | None) -> str:
    return "any number of" if amount is None else str(amount)
