"""Scanner of the frames that a pump receives: decides which frames it may forward, and counts them."""

from __future__ import annotations

from amqproxy.pump.frame_counts import FrameCounts

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython


@cython.cclass
class FrameScanner:
    """The scanner of one protocol in one pump; each folder of a protocol has a subclass.

    It counts frames by `kinds` kinds. One thread scans; another may at any time collect the counts into the `tallies`
    of both peers, if there are any.
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
        """Scan and count whole frames; return the end of the last one that a pump may forward.

        `reason` is set to the reason for giving the connection back there, or 0. Unless `out` is NULL, the frames are
        written to it in the shortened form that the protocol's meter accepts; `written` bytes, at most the frames' own.
        """
        return 0

    def collect(self) -> None:
        """Add the counts since the last call to the tallies of both peers."""
        if self._tallies is not None:
            self._counts.collect(self._tallies)
