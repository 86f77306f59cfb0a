"""A connection that a pump relays: both directions, and the state of their channels."""

from __future__ import annotations

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython


@cython.nogil
@cython.cfunc
@cython.exceptval(check=False)
def _free_direction(direction: DirectionPointer) -> cython.void:
    free(direction.rest)
    free(direction.unsent)
    free(direction.channels)
    direction.rest = direction.unsent = cython.NULL
    direction.channels = cython.NULL
    direction.rest_size = direction.unsent_from = direction.unsent_end = 0


@cython.cclass
class PumpedConnection:
    """A connection that a pump is to relay; once it is given back, it has what its pump has received and not used.

    Each folder of a protocol has a subclass. `readers` and `descriptors` are the client's and the server's: the readers
    know no content that has to be shown, and what they hold of an incomplete frame is the pump's from here on.
    `returned` is called once the connection is back. `note` is given what has passed, if it is metered: whether the
    server sent it, the bytes, the time in seconds of the monotonic clock, and whether bodies are left out. `holder` is
    what watches for silent peers, if something does: see `watch`.
    """

    def __init__(self, readers: tuple, descriptors: tuple, returned: object, note: object = None) -> None:
        place: cython.int
        direction: DirectionPointer
        self.readers = readers
        self.returned = returned
        self.note = note
        self.holder = None
        self.is_pumped = self._has_arrived = self._is_watched = False
        self._pumped = cython.cast(PumpedPointer, calloc(1, cython.sizeof(Pumped)))
        if self._pumped == cython.NULL:
            raise MemoryError
        self._pumped.object = cython.cast(VoidPointer, self)
        self._pumped.is_metered = note is not None
        for place in range(2):
            direction = cython.address(self._pumped.directions[place])
            direction.owner = self._pumped
            direction.place = place
            direction.source = descriptors[place]
            direction.target = descriptors[1 - place]
            self._load_rest(readers[place].held, direction)
            self._load(readers[place], direction)
        for place in range(2):  # only now, that nothing can fail any more
            self._empty(readers[place])

    def __dealloc__(self) -> None:
        if self._pumped != cython.NULL:
            _free_direction(cython.address(self._pumped.directions[0]))
            _free_direction(cython.address(self._pumped.directions[1]))
            free(self._pumped)
            self._pumped = cython.NULL

    @cython.cfunc
    def _load(self, reader: object, direction: DirectionPointer) -> object:
        """Copy a reader's limits, and its state of each channel, into its direction."""
        return None

    @cython.cfunc
    def _new_channels(self, direction: DirectionPointer, count: cython.int) -> object:
        """Make room for the states of so many channels."""
        direction.channel_count = count
        if count:
            direction.channels = cython.cast(ChannelContentPointer, calloc(count, cython.sizeof(ChannelContent)))
            if direction.channels == cython.NULL:
                raise MemoryError
        return None

    @cython.cfunc
    def _load_rest(self, held: bytes, direction: DirectionPointer) -> object:
        """Copy what a reader holds of an incomplete frame."""
        size: cython.Py_ssize_t = len(held)
        p: cython.p_const_uchar = held
        direction.is_read = True
        if size:
            direction.rest = cython.cast(BytePointer, malloc(size))
            if direction.rest == cython.NULL:
                raise MemoryError
            memcpy(direction.rest, p, size)
            direction.rest_size = size
        return None

    @cython.cfunc
    def _empty(self, reader: object) -> object:
        """Discard what a reader holds of an incomplete frame, which is the pump's."""
        return None

    def show(self) -> tuple[int, int]:
        """Have the readers know what has passed so far; how many bytes came from each peer since this was last asked.

        While the connection is pumped, that is as it was a moment ago.
        """
        found: list = []
        place: cython.int
        direction: DirectionPointer
        received: cython.ulonglong
        taken: cython.ulonglong
        frames: cython.ulonglong
        for place in range(2):
            direction = cython.address(self._pumped.directions[place])
            if self.readers is not None:
                taken = look(cython.address(direction.taken))
                frames = look(cython.address(direction.frames))
                self.readers[place].skip(taken - direction.shown_taken, frames - direction.shown_frames)
                direction.shown_taken = taken
                direction.shown_frames = frames
                self._show_channels(self.readers[place], direction)
            received = look(cython.address(direction.received))
            found.append(received - direction.shown_received)
            direction.shown_received = received
        return tuple(found)

    @cython.cfunc
    def _show_channels(self, reader: object, direction: DirectionPointer) -> object:
        """Copy the state of each channel back into a reader."""
        return None

    def adopt(self, readers: tuple | None, frames: tuple = (0, 0)) -> None:
        """Give the connection new readers, or None; from the next `show` on, they know all that passed since it was
        handed over. Before that, there were so many frames.
        """
        place: cython.int
        direction: DirectionPointer
        self.readers = readers
        for place in range(2):
            direction = cython.address(self._pumped.directions[place])
            direction.shown_taken = direction.shown_frames = 0
            if readers is not None:
                readers[place].skip(0, frames[place])

    def received(self, place: cython.int) -> int:
        """How many bytes came from a peer since the connection was handed over."""
        return look(cython.address(self._pumped.directions[place].received))

    # --- silent peers

    def watch(self, holder: object, patience: tuple, heard: tuple) -> None:
        """Have `Pump.silent` name `holder` when a peer has sent nothing for longer than its `patience`, where that is
        not 0; each was `heard` last at that time. In seconds, of the clock that `silent` is given.
        """
        place: cython.int
        direction: DirectionPointer
        self.holder = holder
        # Without heartbeats, ten thousand connections are not to cost as many looks at cold memory every second.
        self._is_watched = patience[0] > 0 or patience[1] > 0
        for place in range(2):
            direction = cython.address(self._pumped.directions[place])
            direction.patience = patience[place]
            direction.heard_at = heard[place]
            direction.looked_received = look(cython.address(direction.received))

    def heard(self, place: cython.int) -> float | None:
        """When a watched peer was heard last, as far as `Pump.silent` knows; None where it has been since."""
        direction: DirectionPointer = cython.address(self._pumped.directions[place])
        return direction.heard_at if look(cython.address(direction.received)) == direction.looked_received else None

    @cython.cfunc
    @cython.exceptval(check=False)
    def _is_silent(self, now: cython.double) -> cython.bint:
        place: cython.int
        direction: DirectionPointer
        received: cython.ulonglong
        found: cython.bint = False
        for place in range(2):
            direction = cython.address(self._pumped.directions[place])
            received = look(cython.address(direction.received))
            if received != direction.looked_received or not look_int(cython.address(direction.is_read)):
                direction.looked_received = received
                direction.heard_at = now
            elif direction.patience > 0 and now - direction.heard_at > direction.patience:
                found = True
        return found

    # --- once it is back

    @property
    def reason(self) -> int:
        """Why it was given back."""
        return self._pumped.reason

    def rest(self, place: cython.int) -> bytes:
        """What was received of a peer, and not taken: from the bound of a frame on."""
        direction: DirectionPointer = cython.address(self._pumped.directions[place])
        if direction.rest_size == 0:
            return b""
        return cython.cast(CharPointer, direction.rest)[: direction.rest_size]

    def unsent(self, place: cython.int) -> bytes:
        """What was taken of a peer, and is still to be sent to the other."""
        direction: DirectionPointer = cython.address(self._pumped.directions[place])
        if direction.unsent_from == direction.unsent_end:
            return b""
        return cython.cast(CharPointer, direction.unsent)[direction.unsent_from : direction.unsent_end]

    def error(self, place: cython.int) -> int:
        """The system's error when a peer was read from; 0: none."""
        return self._pumped.directions[place].error

    def frames(self) -> int:
        """How many frames have passed."""
        return look(cython.address(self._pumped.directions[0].frames)) + look(
            cython.address(self._pumped.directions[1].frames)
        )
