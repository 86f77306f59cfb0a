"""Directions of connections that make no progress, listed so that the connections can be given back."""

from __future__ import annotations

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython


@cython.final
@cython.cclass
class StalledDirections:
    """Intrusive list of the directions whose target takes nothing, or whose source has left a larger frame incomplete.

    The newest is first; each has the time since when it is listed.
    """

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def add(self, direction: DirectionPointer, now: cython.ulonglong) -> cython.void:
        """Add a direction that is not listed."""
        direction.is_listed = True
        direction.listed_at = now
        direction.last_listed = cython.NULL
        direction.next_listed = self.first
        if self.first != cython.NULL:
            self.first.last_listed = direction
        self.first = direction

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def discard(self, direction: DirectionPointer) -> cython.void:
        """Remove a direction, if it is listed."""
        if not direction.is_listed:
            return
        direction.is_listed = False
        if direction.last_listed != cython.NULL:
            direction.last_listed.next_listed = direction.next_listed
        else:
            self.first = direction.next_listed
        if direction.next_listed != cython.NULL:
            direction.next_listed.last_listed = direction.last_listed
        direction.next_listed = direction.last_listed = cython.NULL
