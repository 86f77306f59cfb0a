"""One subscription of a session: what it asks for, and its credit. Section 10.2, message.set-flow-mode."""

from __future__ import annotations

from typing import Protocol

from amqproxy.amqp010.domains import CreditUnit
from amqproxy.broker.amqp010.jms_selector import JmsSelector
from amqproxy.broker.queues.consumer import Consumer
from amqproxy.broker.queues.queue import Queue

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

INFINITE = 0xFFFF_FFFF
"""The value of a message.flow that lifts a limit."""


class Looking(Protocol):
    """A browser as its subscription sees it; `browser` documents its methods."""

    @property
    def is_behind(self) -> bool: ...

    def tick(self, now: float, /) -> None: ...

    def end(self) -> None: ...


class Subscription:
    """A subscription with its name, `destination`, and its credit, `messages` and `size` (bytes).

    Credit of None is without a limit. In window mode, a message's credit is restored once its receiver has completed
    it. `needs` is the size in bytes of the next message, if it was too large for the credit, and 0 otherwise.
    """

    __slots__ = (
        "accepts_explicitly",
        "acquires",
        "body_head",
        "body_size",
        "browser",
        "command",
        "consumer",
        "destination",
        "head",
        "header_size",
        "is_body_cut",
        "is_header_cut",
        "is_window",
        "messages",
        "needs",
        "queue",
        "resume_id",
        "resume_ttl",
        "selector",
        "size",
        "window",
    )

    def __init__(self, destination: str, queue: Queue, *, accepts_explicitly: bool, acquires: bool) -> None:
        self.destination = destination
        self.queue = queue
        self.accepts_explicitly = accepts_explicitly
        self.acquires = acquires
        self.is_window = True
        self.messages: int | None = 0
        self.size: int | None = 0
        self.needs = 0
        self.window = 0
        """Number of times the credit was cleared."""
        self.command = b""
        """Encoded command that each transfer begins with."""
        self.head = b""
        """Bytes before the header and before the body of the last transfer, for a header and a body of these sizes."""
        self.body_head = b""
        self.header_size = 0
        self.body_size = 0
        self.is_header_cut = self.is_body_cut = False
        """Whether the header, or the body, took several frames, so that the bytes before it are without its frame head.
        """
        self.resume_id: str | None = None
        self.resume_ttl: int | None = None
        """Resume-id and resume-ttl of the transfers, for those that are interrupted."""
        self.selector: JmsSelector | None = None
        """Selector of the messages that it wants; None for all."""
        self.consumer: Consumer | None = None
        self.browser: Looking | None = None
        """Browser that looks for messages to send, in place of the consumer's turns in the queue."""

    def has_credit(self) -> cython.bint:
        """Return whether there is credit for one more message."""
        if self.messages == 0 or self.size == 0:
            return False
        return self.size is None or self.size >= self.needs

    def add(self, unit: int, value: int | None) -> None:
        """Add the credit of a message.flow; None and `INFINITE` lift the limit."""
        is_infinite = value is None or value == INFINITE
        if unit == CreditUnit.MESSAGE:
            self.messages = None if is_infinite or self.messages is None else self.messages + (value or 0)
        else:
            self.size = None if is_infinite or self.size is None else self.size + (value or 0)

    def clear(self) -> None:
        """Clear the credit, for message.stop; transfers sent before give none back."""
        self.messages = self.size = 0
        self.window += 1

    def spend(self, size: cython.Py_ssize_t) -> None:
        """Take a message of `size` bytes from the credit."""
        self.needs = 0
        if self.messages is not None:
            self.messages -= 1
        if self.size is not None:
            self.size = max(0, self.size - size)

    def give_back(self, size: cython.Py_ssize_t) -> None:
        """Give back the credit of a completed message of `size` bytes."""
        if self.messages is not None:
            self.messages += 1
        if self.size is not None:
            self.size += size
