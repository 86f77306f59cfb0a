"""Times of the last frame of each peer of a connection, heartbeats included."""

from __future__ import annotations

from amqproxy.peer import Peer

PAUSE_NS = 60_000_000_000
"""Least silence that is remembered as a pause: firewalls and load balancers wait for a minute at least."""


class Activity:
    """The times of both peers' last frames, in nanoseconds, and the last pause of the connection.

    `stalled_ns` is for how long the broker has taken nothing, though there was something to send, until
    `stalled_until_ns`, or until now if that is 0; both are noted from outside, since frames do not show it.
    """

    __slots__ = ("_last", "_pause_ns", "_resumed_ns", "stalled_ns", "stalled_until_ns")

    def __init__(self) -> None:
        self._last: dict[Peer, int] = {}
        self._pause_ns = 0
        self._resumed_ns = 0
        self.stalled_ns = 0
        self.stalled_until_ns = 0

    def note(self, sender: Peer, ts_ns: int) -> None:
        """Record that `sender` sent frames at `ts_ns`."""
        last = self._last
        if ts_ns - last.get(sender, 0) >= PAUSE_NS:  # else the silence of both was shorter still
            pause_ns = self._since_last(ts_ns)
            if pause_ns >= PAUSE_NS:
                self._pause_ns, self._resumed_ns = pause_ns, ts_ns
        last[sender] = ts_ns

    def forget(self) -> None:
        """Forget all times, since frames were missed: either peer may have sent some since."""
        self._last.clear()
        self._pause_ns = self._resumed_ns = 0

    def silence_ns(self, peer: Peer, now_ns: int) -> int:
        """Return for how long `peer` has sent nothing; 0 if no frame of it was seen."""
        return now_ns - self._last.get(peer, now_ns)

    def pause_ns(self, now_ns: int) -> int:
        """Return how long both peers have been silent, or how long the last pause was if one peer alone has sent since.

        0 if the silence was shorter than `PAUSE_NS`, or if both peers have sent frames since it ended.
        """
        lasting_ns = self._since_last(now_ns)
        if lasting_ns >= PAUSE_NS:
            return lasting_ns
        is_unanswered = sum(ts_ns >= self._resumed_ns for ts_ns in self._last.values()) < len(Peer)
        return self._pause_ns if is_unanswered else 0

    def _since_last(self, now_ns: int) -> int:
        return now_ns - max(self._last.values(), default=now_ns)
