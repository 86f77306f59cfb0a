"""One subscription of a session: what it asks for, and how much it may be sent. Section 10.2, message.set-flow-mode."""

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
    """A browser; `browser` has what it does."""

    @property
    def is_behind(self) -> bool: ...

    def tick(self, now: float, /) -> None: ...

    def end(self) -> None: ...


class Subscription:
    """`destination` is its name. `messages` and `size` (bytes) are its credit, None where there is no limit.

    In window mode, what is sent is credit again once its receiver has completed it. `needs` is how many bytes the next
    message has that was too large for the credit; 0 where none was.
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
        """How often the credit was cleared."""
        self.command = b""
        """The command that each transfer begins with."""
        self.head = b""
        """What came before the header of the last transfer, and before its body, which had so many bytes."""
        self.body_head = b""
        self.header_size = 0
        self.body_size = 0
        self.is_header_cut = self.is_body_cut = False
        """Did they take several frames, so that what comes before them is without the head of theirs?"""
        self.resume_id: str | None = None
        self.resume_ttl: int | None = None
        """What its transfers are to be known by, where they are interrupted."""
        self.selector: JmsSelector | None = None
        """Which messages it wants; None for all."""
        self.consumer: Consumer | None = None
        self.browser: Looking | None = None
        """What looks for messages to be sent to it, in place of its consumer's turns in the queue."""

    def has_credit(self) -> cython.bint:
        """Is there credit for one more message?"""
        if self.messages == 0 or self.size == 0:
            return False
        return self.size is None or self.size >= self.needs

    def add(self, unit: int, value: int | None) -> None:
        """Take a message.flow; None and `INFINITE` lift the limit."""
        is_infinite = value is None or value == INFINITE
        if unit == CreditUnit.MESSAGE:
            self.messages = None if is_infinite or self.messages is None else self.messages + (value or 0)
        else:
            self.size = None if is_infinite or self.size is None else self.size + (value or 0)

    def clear(self) -> None:
        """There is no credit left, and what was sent before gives none back: message.stop."""
        self.messages = self.size = 0
        self.window += 1

    def spend(self, size: cython.Py_ssize_t) -> None:
        """Take a message of so many bytes from the credit."""
        self.needs = 0
        if self.messages is not None:
            self.messages -= 1
        if self.size is not None:
            self.size = max(0, self.size - size)

    def give_back(self, size: cython.Py_ssize_t) -> None:
        """A message of so many bytes is completed."""
        if self.messages is not None:
            self.messages += 1
        if self.size is not None:
            self.size += size
