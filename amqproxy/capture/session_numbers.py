"""Numbers of a capture's connections: those of the proxy's sessions, as its log and the dashboard have them."""

from __future__ import annotations

from amqproxy.capture.packet_comment import session_of
from amqproxy.capture.stream_events import Opened
from amqproxy.taps.leg_number import UPSTREAM


class SessionNumbers:
    """Numbers connections as the recording does; without one, in the order of the capture.

    Recordings of two runs of a proxy have the same numbers: of two connections, the later one gets the next free one.
    The upstream leg, where both are read, has the number of its client's, to which `UPSTREAM` is added unless this
    `merges_legs`.
    """

    def __init__(self, *, merges_legs: bool = False) -> None:
        self._merges_legs = merges_legs
        self._given: dict[int, int] = {}
        """Number of the last connection with each number in the recording."""
        self._highest = -1

    def number(self, opened: Opened) -> int:
        """Return the number of the connection that begins."""
        number = session = session_or_stream(opened)
        if session in self._given:
            if opened.leg == "upstream":
                return self._given[session] + (0 if self._merges_legs else UPSTREAM)
            number = self._highest + 1
        self._given[session] = self._given[number] = number
        self._highest = max(self._highest, number)
        return number


def session_or_stream(opened: Opened) -> int:
    """Return the number of the session that a connection belongs to; of a foreign capture, that of its stream."""
    session = session_of(opened.comments)
    return opened.stream if session is None else session
