"""One channel on its way through the crossing: both directions of it, its numbers, and its end."""

from __future__ import annotations

from collections import deque

from amqproxy.amqp091.frames import Frame
from amqproxy.amqp091.grammar import CLIENT, SERVER
from amqproxy.proxy.flow import Flow
from amqproxy.proxy.renumbering import ConfirmNumbers, DeliveryNumbers
from amqproxy.rules.verdict import Close


class Strait:
    """What a channel needs whose legs may differ.

    `confirms_from` is how many publishes came before confirm.select, None without one; `confirms` and `deliveries` are
    there from the first difference on. `closing` is why we close it; `is_closed` holds once both peers have been told.
    `reopening` is what the client says on the number's next channel before the broker has let go of this one.
    `own_requests` has, for each kind of request of which we sent one, whose the next answers are (True: ours).
    """

    __slots__ = (
        "class_and_method",
        "closing",
        "confirms",
        "confirms_from",
        "deliveries",
        "flows",
        "is_closed",
        "is_watched",
        "number",
        "own_requests",
        "reopening",
    )

    def __init__(self, number: int) -> None:
        self.number = number
        self.flows = {CLIENT: Flow(CLIENT), SERVER: Flow(SERVER)}
        self.is_watched = False
        self.confirms_from: int | None = None
        self.confirms: ConfirmNumbers | None = None
        self.deliveries: DeliveryNumbers | None = None
        self.own_requests: dict[str, deque[bool]] = {}
        self.closing: Close | None = None
        self.class_and_method = (0, 0)
        self.is_closed = False
        self.reopening: deque[Frame] = deque()

    @property
    def octets(self) -> int:
        """Octets of the client's and the broker's that wait here."""
        return sum(flow.octets for flow in self.flows.values()) + sum(len(frame.raw) for frame in self.reopening)
