"""Scans the frames that a pump has received: which may be sent on, and what is counted of them."""

from __future__ import annotations

from amqproxy.pump.frame_counts import FrameCounts

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython


@cython.cclass
class FrameScanner:
    """The scanner of one protocol in one pump; each folder of a protocol has a subclass.

    It counts frames of so many `kinds`. One thread scans; another one, at any time, collects the counts into the
    `tallies` of both peers, if there are any.
    """

    def __init__(self, kinds: int, tallies: tuple | None) -> None:
        self._counts = FrameCounts(kinds)
        self._tallies = tallies
        self.written = 0

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def scan(
        self,
        direction: DirectionPointer,
        p: ConstBytePointer,
        length: cython.Py_ssize_t,
        out: BytePointer,
        reason: IntPointer,
    ) -> cython.Py_ssize_t:
        """Scan and count whole frames; return where the last of them ends that a pump may send on.

        `reason` is set to why the connection has to be given back there, or 0. Unless `out` is NULL, the frames are
        written there as the protocol's meter takes them when cut, in `written` bytes, no more than the frames have.
        """
        return 0

    def collect(self) -> None:
        """Add to the tallies of both peers what was counted since the last call."""
        if self._tallies is not None:
            self._counts.collect(self._tallies)
