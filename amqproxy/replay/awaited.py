"""Waiting for what the recorded broker did, step by step, as long as there is hope."""

from __future__ import annotations

from typing import Protocol

from amqproxy.replay.broker_link import Life
from amqproxy.replay.result import ReplayResult
from amqproxy.replay.steps import Step

TIMEOUT = 5.0
"""Seconds for which an answer that the recording has is waited for."""

MAX_SILENCES = 2
"""How often in a row an answer may not come in time, with nothing else coming either."""


class AwaitedConnection(Protocol):
    """The live connection on which something is to come."""

    life: Life
    error: str

    @property
    def received(self) -> int:
        """How many bytes have come."""

    def fault(self, reason: str) -> None:
        """Give it up."""


class Awaited:
    """What one connection waits for: one step at a time, for `timeout` seconds."""

    def __init__(self, connection: AwaitedConnection, result: ReplayResult, timeout: float) -> None:
        self._connection = connection
        self._result = result
        self.timeout = timeout
        self._index = -1
        self._since = 0.0
        self._silences = 0
        self._received = -1

    def has_begun(self, step: Step) -> bool:
        """Is this what is waited for already?"""
        return self._index == step.index

    def answer(
        self, step: Step, begin: float, now: float, *, is_over: bool, is_quiet: bool = False, why_over: str
    ) -> float | None:
        """Until when to wait for what the recorded broker did; None when it will not come, which is then reported."""
        if not is_over:
            until = self._until(step, begin)
            if now < until:
                return until
            self._note_silence()
        if not is_quiet:
            why = self._connection.error or why_over if is_over else "it did not come"
            self._result.missing(step, why)
        return None

    def patience(self, step: Step, now: float, reason: str) -> float | None:
        """Until when to wait before a command is sent; when that is over, the connection is given up for a reason."""
        until = self._until(step, now)
        if now < until:
            return until
        if reason:
            self._connection.fault(reason)
        return None

    def _until(self, step: Step, begin: float) -> float:
        if self._index != step.index:
            self._index = step.index
            self._since = begin
        return self._since + self.timeout

    def _note_silence(self) -> None:
        """An answer did not come in time. A broker that does not send anything any more is given up."""
        received = self._connection.received
        self._silences = self._silences + 1 if received == self._received else 1
        self._received = received
        if self._silences >= MAX_SILENCES and self._connection.life is Life.CONNECTED:
            self._connection.fault(f"the broker has not answered for {self._silences} times {self.timeout:g} s")
