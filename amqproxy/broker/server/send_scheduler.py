"""The connections that have something to send: all that one turn causes is sent together at its end."""

from __future__ import annotations

from collections import deque
from typing import Protocol

import trio

from amqproxy.broker.server.clock import current_time
from amqproxy.broker.work import Quantum
from amqproxy.process.supervision import contained

SENDING = 8
"""What it costs of a turn to let one client's socket take what there is for it."""


class ScheduledSender(Protocol):
    """A connection that may have something to send."""

    def send(self, now: float) -> None:
        """Send what there is, as far as that goes without waiting."""


class SendScheduler:
    """The senders of one broker that have something to send.

    Code that makes the broker send calls `hold` before and `flush` after: so what belongs together leaves in one piece,
    and no task has to wake up for it. The rest is for `run` to send.
    """

    def __init__(self, quantum: Quantum | None = None) -> None:
        self._quantum = quantum or Quantum()
        self._senders: deque[ScheduledSender] = deque()
        self._is_held = False
        self._something = trio.Event()

    def add(self, sender: ScheduledSender) -> None:
        """Let `sender` send at the next flush, once."""
        self._senders.append(sender)
        if not self._is_held:
            self._something.set()

    def hold(self) -> None:
        """A flush is going to follow in this very turn."""
        self._is_held = True

    def flush(self, now: float) -> None:
        """Let each send once. What they then still have waits for the next turn: others have theirs meanwhile.

        Connections that this turn has no time for do, too.
        """
        self._is_held = True
        quantum = self._quantum
        quantum.begin()
        for _ in range(len(self._senders)):
            sender = self._senders.popleft()
            with contained("sending failed"):
                sender.send(now)
            quantum.left -= SENDING
            if quantum.is_over():
                break
        self._is_held = False
        if self._senders:
            self._something.set()

    async def run(self) -> None:
        """Flush what is left, until cancelled."""
        while True:
            await self._something.wait()
            self._something = trio.Event()
            with contained("sending failed"):
                self.flush(current_time())
