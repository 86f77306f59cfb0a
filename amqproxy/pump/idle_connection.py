"""An idle connection while an `IdlePump` has it: the plain form of a `PumpedConnection`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

_NOTHING = b"", b""


class AnyReader(Protocol):
    """The reader of one direction, as far as it learns what it has not read."""

    def skip(self, size: int, frames: int = 0) -> None:
        """Count bytes and frames that were read elsewhere."""


Readers = tuple[AnyReader, AnyReader]
"""The client's, and the server's."""


class IdleConnection:
    """A connection with the interface and arguments of a `PumpedConnection`; each folder of a protocol has a subclass.

    The readers hold nothing of an incomplete frame. `received`, `taken` and `frames` count what has come of each peer
    since; `reason`, `rest`, `unsent` and `error` are as its pump leaves them. `since` is when that took it, in seconds.
    All that passes are frames as `heartbeat`, which a tally counts as its `heartbeat_kind`.
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
        self._states = tuple(map(self._packed_states, readers))
        self._shown = [(0, 0, 0), (0, 0, 0)]
        self._patience = self._heard = (0.0, 0.0)
        self._looked = (0, 0)

    def show(self) -> tuple[int, int]:
        """As `PumpedConnection.show`."""
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
        """As `PumpedConnection.adopt`."""
        self.readers = readers
        for place in range(2):
            self._shown[place] = self._shown[place][0], 0, 0
            if readers is not None:
                self._unpack_states(self._states[place], readers[place])
                readers[place].skip(0, frames[place])

    def received(self, place: int) -> int:
        """How many bytes came from a peer since the connection was handed over."""
        return self.received_bytes[place]

    def frames(self) -> int:
        """How many frames have passed."""
        return sum(self.frame_counts)

    # --- silent peers

    def watch(self, holder: object, patience: tuple[float, float], heard: tuple[float, float]) -> None:
        """As `PumpedConnection.watch`."""
        self.holder = holder
        self._patience, self._heard = patience, heard
        self._looked = self.received_bytes[0], self.received_bytes[1]

    def heard(self, place: int) -> float | None:
        """As `PumpedConnection.heard`."""
        return self._heard[place] if self.received_bytes[place] == self._looked[place] else None

    def is_silent(self, now: float) -> bool:
        """Has a peer that is watched been silent for too long?"""
        received = self.received_bytes[0], self.received_bytes[1]
        if received != self._looked:
            heard = [now if received[place] != self._looked[place] else self._heard[place] for place in range(2)]
            self._looked, self._heard = received, (heard[0], heard[1])
        return any(
            patience > 0 and now - heard > patience for patience, heard in zip(self._patience, self._heard, strict=True)
        )

    # --- once it is back

    def rest(self, place: int) -> bytes:
        """What was received of a peer, and not taken."""
        return self.rests[place]

    def unsent(self, place: int) -> bytes:
        """What was taken of a peer, and is still to be sent to the other."""
        return self.unsents[place]

    def error(self, place: int) -> int:
        """The system's error when a peer was read from; 0: none."""
        return self.errors[place]

    # --- for the protocols

    def _packed_states(self, reader: Any) -> bytes:
        """Return what a reader knows of its channels between two messages; by default nothing."""
        return b""

    def _unpack_states(self, packed: bytes, reader: Any) -> None:
        """Give another reader what `_packed_states` returned."""
