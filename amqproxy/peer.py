"""The two peers of a connection, client and server, and the heartbeats between them, for every AMQP version."""

from __future__ import annotations

from enum import StrEnum

SILENCE = 2
"""Number of heartbeat intervals without a byte after which a peer counts as gone (0-9-1: section 4.2.7)."""


class Peer(StrEnum):
    """One of the two that a connection joins; each frame has one of them as its sender."""

    CLIENT = "client"
    SERVER = "server"

    other: Peer


CLIENT, SERVER = Peer.CLIENT, Peer.SERVER
CLIENT.other, SERVER.other = SERVER, CLIENT  # as attributes, since they are asked for several times a message


class Heartbeats:
    """Times of the last bytes from each peer, any of which count as a heartbeat.

    `heartbeat` is the negotiated interval in seconds, 0 without heartbeats.
    """

    __slots__ = ("_heard", "heartbeat")

    def __init__(self) -> None:
        self.heartbeat = 0
        self._heard: dict[Peer, float] = {}

    def note_received(self, sender: Peer, now: float) -> None:
        """Note bytes from `sender` at `now`, in seconds of any monotonic clock."""
        self._heard[sender] = now

    def heard(self, sender: Peer, now: float) -> float:
        """Return the time of the last bytes from `sender`; `now` if unknown."""
        return self._heard.get(sender, now)

    def is_heartbeat_due(self, sender: Peer, now: float) -> bool:
        """Whether `sender` has been silent for half an interval, and should send a heartbeat."""
        return self._silence(sender, now) >= self.heartbeat / 2 > 0

    def is_silent(self, sender: Peer, now: float) -> bool:
        """Whether `sender` has been silent for more than `SILENCE` intervals, so that the other peer may disconnect."""
        return self._silence(sender, now) > SILENCE * self.heartbeat > 0

    def _silence(self, sender: Peer, now: float) -> float:
        return now - self._heard.setdefault(sender, now)
