"""Counters of frames and bytes by kind."""

from array import array

# All classes must exist before they are counted.
from amqproxy.amqp010 import commands, controls
from amqproxy.amqp010.methods import BY_INDEX

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

METHOD_COUNT = len(BY_INDEX)
KINDS = 3 * METHOD_COUNT + 4
"""Number of kinds of frame that a `Tally` distinguishes: controls and commands, their headers and bodies (the second
and third `METHOD_COUNT`), and frames of unknown methods, by type (the last four).
"""

DEFINED = (controls, commands)


@cython.final
@cython.cclass
class Tally:
    """Frames and bytes by kind of frame; shared by all readers that are given it."""

    def __init__(self) -> None:
        self.frames = array("Q", bytes(8 * KINDS))
        self.byte_counts = array("Q", bytes(8 * KINDS))
        self._frames = self.frames
        self._byte_counts = self.byte_counts
