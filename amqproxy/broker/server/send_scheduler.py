"""Scheduler of the connections with pending output, which is sent together at the end of each turn."""

from __future__ import annotations

from collections import deque
from typing import Protocol

import trio

from amqproxy.broker.server.clock import current_time
from amqproxy.broker.work import Quantum
from amqproxy.process.supervision import contained

SENDING = 8
"""Operations that sending to one client's socket counts as."""


class ScheduledSender(Protocol):
    """A connection that may have something to send."""

    def send(self, now: float) -> None:
        """Send as much output as the socket takes without waiting."""


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
        """Schedule `sender` to send once at the next flush."""
        self._senders.append(sender)
        if not self._is_held:
            self._something.set()

    def hold(self) -> None:
        """Announce a flush later in this turn."""
        self._is_held = True

    def flush(self, now: float) -> None:
        """Call each sender once; output that remains waits for the next turn, after the other connections'.

        Connections for which this turn has no time also wait for the next one.
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
        """Flush the remaining senders, until cancelled."""
        while True:
            await self._something.wait()
            self._something = trio.Event()
            with contained("sending failed"):
                self.flush(current_time())
