"""An idle connection held by an `IdlePump`: the pure Python form of a `PumpedConnection`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

_NOTHING = b"", b""


class AnyReader(Protocol):
    """The reader of one direction, which is told of bytes read elsewhere."""

    def skip(self, size: int, frames: int = 0) -> None:
        """Count bytes and frames that were read elsewhere."""


Readers = tuple[AnyReader, AnyReader]
"""The readers of client and server."""


class IdleConnection:
    """A connection with the interface and arguments of a `PumpedConnection`; each folder of a protocol has a subclass.

    The readers must hold no incomplete frame. `received`, `taken` and `frames` count each peer's bytes and frames since
    the hand-over; the pump sets `reason`, `rest`, `unsent` and `error`. `since` is the hand-over's time in seconds.
    Only frames equal to `heartbeat` are forwarded, which a tally counts as kind `heartbeat_kind`.
    """

    heartbeat: ClassVar[bytes]
    heartbeat_kind: ClassVar[int]

    __slots__ = (
        "_heard",
        "_looked",
        "_patience",
        "_shown",
        "_states",
        "descriptors",
        "errors",
        "frame_counts",
        "holder",
        "is_pumped",
        "note",
        "readers",
        "reason",
        "received_bytes",
        "rests",
        "returned",
        "since",
        "taken",
        "unsents",
    )

    def __init__(
        self,
        readers: Readers,
        descriptors: tuple[int, int],
        returned: Callable[[], object],
        note: Callable[[bool, memoryview, float, bool], object] | None = None,
    ) -> None:
        self.readers: Readers | None = readers
        self.descriptors = descriptors
        self.returned = returned
        self.note = note
        self.holder: object = None
        self.is_pumped = False
        self.reason = 0
        self.since = 0.0
        self.received_bytes, self.taken, self.frame_counts = [0, 0], [0, 0], [0, 0]
        self.rests, self.unsents, self.errors = _NOTHING, _NOTHING, (0, 0)
        self._states: tuple[bytes, ...] = ()
        self._shown = [(0, 0, 0), (0, 0, 0)]
        self._patience = self._heard = (0.0, 0.0)
        self._looked = (0, 0)

    def show(self) -> tuple[int, int]:
        """Update the readers, and return the bytes received from each peer since the last call."""
        found = []
        for place in range(2):
            received, taken, frames = self.received_bytes[place], self.taken[place], self.frame_counts[place]
            before = self._shown[place]
            if self.readers is not None:
                self.readers[place].skip(taken - before[1], frames - before[2])
            found.append(received - before[0])
            self._shown[place] = received, taken, frames
        return found[0], found[1]

    def adopt(self, readers: Readers | None, frames: tuple[int, int] = (0, 0)) -> None:
        """Replace the readers like `PumpedConnection.adopt`."""
        if not self._states and self.readers is not None:  # heartbeats change no state: it is needed once they go
            self._states = tuple(map(self._packed_states, self.readers))
        self.readers = readers
        for place in range(2):
            self._shown[place] = self._shown[place][0], 0, 0
            if readers is not None:
                self._unpack_states(self._states[place], readers[place])
                readers[place].skip(0, frames[place])

    def received(self, place: int) -> int:
        """Return the number of bytes received from a peer since the connection was handed over."""
        return self.received_bytes[place]

    def frames(self) -> int:
        """Return the number of forwarded frames."""
        return sum(self.frame_counts)

    # --- silent peers

    def watch(self, holder: object, patience: tuple[float, float], heard: tuple[float, float]) -> None:
        """Watch for silent peers like `PumpedConnection.watch`."""
        self.holder = holder
        self._patience, self._heard = patience, heard
        self._looked = self.received_bytes[0], self.received_bytes[1]

    def heard(self, place: int) -> float | None:
        """Return the time of a peer's last byte like `PumpedConnection.heard`."""
        return self._heard[place] if self.received_bytes[place] == self._looked[place] else None

    def is_silent(self, now: float) -> bool:
        """Whether a watched peer has been silent for longer than its patience."""
        received = self.received_bytes[0], self.received_bytes[1]
        if received != self._looked:
            heard = [now if received[place] != self._looked[place] else self._heard[place] for place in range(2)]
            self._looked, self._heard = received, (heard[0], heard[1])
        return any(
            patience > 0 and now - heard > patience for patience, heard in zip(self._patience, self._heard, strict=True)
        )

    # --- once it is back

    def rest(self, place: int) -> bytes:
        """Return the bytes received from a peer that the pump has not taken."""
        return self.rests[place]

    def unsent(self, place: int) -> bytes:
        """Return the bytes taken from a peer that are still to be sent to the other."""
        return self.unsents[place]

    def error(self, place: int) -> int:
        """Return the errno of reading from a peer; 0 if there was none."""
        return self.errors[place]

    # --- for the protocols

    def _packed_states(self, reader: Any) -> bytes:
        """Return a reader's channel states between two messages; empty by default."""
        return b""

    def _unpack_states(self, packed: bytes, reader: Any) -> None:
        """Restore the result of `_packed_states` into another reader."""
