"""Messages that come back to a queue again and again by its dead-letter exchange."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from amqproxy.taps.findings.detector import Detector, on
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.trace.events import MessageDelivered, MessageProperties, encoded_headers

MANY = 20
"""Number of returns of a message that counts as a loop; finite retries end before."""


class DeadLetterLoop(Detector):
    """A message has been dead-lettered by the same queue again and again."""

    kind = "dead-letter-loop"
    severity = Severity.WARNING
    why = "A message that always fails is retried forever: it delays others, and x-death counts the rounds."
    remedy = (
        "Look at the count in x-death before rejecting, and park or drop a message after some retries; or use a quorum "
        "queue with a delivery-limit."
    )

    @on(MessageDelivered)
    def _on_delivered(self, event: MessageDelivered) -> str | None:
        count, queue, reason = max(_deaths(event.properties), default=(0, "", ""))
        if count < MANY:
            return None
        return f"a message was dead-lettered {count} times by queue {queue} ({reason})"


def _deaths(properties: MessageProperties) -> list[tuple[int, str, str]]:
    """Return the count, queue and reason of each entry of x-death."""
    headers = properties.headers
    if headers is None or b"x-death" not in encoded_headers(properties):
        return []  # the usual case, in which nothing is decoded
    deaths = headers.get("x-death")
    return [
        (count, str(each.get("queue", "")), str(each.get("reason", "")))
        for each in (deaths if isinstance(deaths, Sequence) else ())
        if isinstance(each, Mapping) and isinstance(count := _count(each), int)
    ]


def _count(death: Mapping[str, Any]) -> Any:
    return death.get("count")
