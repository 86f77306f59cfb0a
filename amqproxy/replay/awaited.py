"""Waiting for the recorded broker's answers, one step at a time, as long as they can still come."""

from __future__ import annotations

from amqproxy.replay.broker_link import BrokerLink, Life
from amqproxy.replay.result import ReplayResult
from amqproxy.replay.steps import Step

TIMEOUT = 5.0
"""Seconds to wait for a recorded answer."""

MAX_SILENCES = 2
"""Consecutive timeouts without any bytes received, after which a connection is given up."""


class Awaited:
    """The waiting of one connection: for one step at a time, for `timeout` seconds."""

    def __init__(self, connection: BrokerLink, result: ReplayResult, timeout: float) -> None:
        self._connection = connection
        self._result = result
        self.timeout = timeout
        self._index = -1
        self._since = 0.0
        self._silences = 0
        self._received = -1

    def has_begun(self, step: Step) -> bool:
        """Whether the connection already waits for this step."""
        return self._index == step.index

    def answer(
        self, step: Step, begin: float, now: float, *, is_over: bool, is_quiet: bool = False, why_over: str
    ) -> float | None:
        """Return until when to wait for a recorded answer; None if it will not come.

        That is reported, unless `is_quiet`.
        """
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
        """Return the time until which a command must wait, or `None` once it has passed.

        With a `reason`, the connection is then given up.
        """
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
        """Note a timeout; give up the connection after `MAX_SILENCES` in a row without any bytes."""
        received = self._connection.received
        self._silences = self._silences + 1 if received == self._received else 1
        self._received = received
        if self._silences >= MAX_SILENCES and self._connection.life is Life.CONNECTED:
            self._connection.fault(f"the broker has not answered for {self._silences} times {self.timeout:g} s")
