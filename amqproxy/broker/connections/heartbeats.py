"""Heartbeat timing for a connection whose protocol state machine does not track it."""

from __future__ import annotations

from amqproxy.peer import Peer

SILENCE = 2
"""Number of heartbeat intervals without a byte after which a peer counts as gone."""


class Heartbeats:
    """Times of the last bytes from each peer; `heartbeat` is the interval in seconds, 0 without heartbeats."""

    __slots__ = ("_heard", "heartbeat")

    def __init__(self) -> None:
        self.heartbeat = 0
        self._heard: dict[Peer, float] = {}

    def note_received(self, sender: Peer, now: float) -> None:
        """Note that bytes came from `sender` at `now`, in seconds."""
        self._heard[sender] = now

    def is_heartbeat_due(self, sender: Peer, now: float) -> bool:
        """Whether `sender` has been silent for half an interval, and should send a heartbeat."""
        return self._silence(sender, now) >= self.heartbeat / 2 > 0

    def is_silent(self, sender: Peer, now: float) -> bool:
        """Whether `sender` has been silent for more than `SILENCE` intervals, so that the other peer may disconnect."""
        return self._silence(sender, now) > SILENCE * self.heartbeat > 0

    def _silence(self, sender: Peer, now: float) -> float:
        return now - self._heard.setdefault(sender, now)
