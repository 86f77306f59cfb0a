"""Counters of frames and bytes by kind."""

from array import array

from amqproxy.amqp091.methods import BY_INDEX

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

METHOD_COUNT = len(BY_INDEX)
KINDS = 4 * METHOD_COUNT + 1
"""Number of kinds of frame that a `Tally` distinguishes: methods, their headers and bodies (the second and third
`METHOD_COUNT`), contents without a method (the first two of the fourth), and heartbeats (the last).
"""


@cython.final
@cython.cclass
class Tally:
    """Frames and bytes by kind of frame; shared by all readers that are given it."""

    def __init__(self) -> None:
        self.frames = array("Q", bytes(8 * KINDS))
        self.byte_counts = array("Q", bytes(8 * KINDS))
        self._frames = self.frames
        self._byte_counts = self.byte_counts
