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
    """A connection relayed by a pump; once given back, it holds the bytes that the pump has received but not used.

    Each folder of a protocol has a subclass. `readers` and `descriptors` are the client's and the server's: the readers
    must have no content to show, and their bytes of an incomplete frame move to the pump. `returned` is called once the
    connection is back. `note`, if the connection is metered, is called with the forwarded frames: whether the server
    sent them, the bytes, the time in seconds of the monotonic clock, and whether bodies are left out. `holder` is the
    object that watches for silent peers, if any: see `watch`.
    """

    def __init__(self, readers: tuple, descriptors: tuple, returned: object, note: object = None) -> None:
        place: cython.int
        direction: DirectionPointer
        self.readers = readers
        self.returned = returned
        self.note = note
        self.holder = None
        self._connections = ()
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
        for place in range(2):  # last, because nothing can fail from here
            self._empty(readers[place])

    def __dealloc__(self) -> None:
        if self._pumped != cython.NULL:
            _free_direction(cython.address(self._pumped.directions[0]))
            _free_direction(cython.address(self._pumped.directions[1]))
            free(self._pumped)
            self._pumped = cython.NULL

    def use_tls(self, place: cython.int, sock: object) -> None:
        """Decrypt what a peer sends and encrypt what it is sent with the connection of its `TlsSocket`."""
        connection: VoidPointer = connection_of(sock)
        self._connections = (*self._connections, sock._sslobj)  # OpenSSL frees it with this object
        self._pumped.directions[place].source_tls = connection
        self._pumped.directions[1 - place].target_tls = connection

    @cython.cfunc
    def _load(self, reader: object, direction: DirectionPointer) -> object:
        """Copy a reader's limits and channel states into its direction."""
        return None

    @cython.cfunc
    def _new_channels(self, direction: DirectionPointer, count: cython.int) -> object:
        """Allocate the states of `count` channels."""
        direction.channel_count = count
        if count:
            direction.channels = cython.cast(ChannelContentPointer, calloc(count, cython.sizeof(ChannelContent)))
            if direction.channels == cython.NULL:
                raise MemoryError
        return None

    @cython.cfunc
    def _load_rest(self, held: bytes, direction: DirectionPointer) -> object:
        """Copy a reader's bytes of an incomplete frame."""
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
        """Discard a reader's bytes of an incomplete frame, which the pump has taken over."""
        return None

    def show(self) -> tuple[int, int]:
        """Update the readers with the forwarded frames; return the bytes received from each peer since the last call.

        While the connection is pumped, the counts lag by a moment.
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
        """Copy the channel states back into a reader."""
        return None

    def adopt(self, readers: tuple | None, frames: tuple = (0, 0)) -> None:
        """Set new readers or `None`; the next `show` tells them of everything forwarded since the hand-over.

        `frames` are the numbers of each peer's frames before the hand-over.
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
        """Return the number of bytes received from a peer since the connection was handed over."""
        return look(cython.address(self._pumped.directions[place].received))

    # --- silent peers

    def watch(self, holder: object, patience: tuple, heard: tuple) -> None:
        """Make `Pump.silent` report `holder` when a peer has sent nothing for longer than its `patience`.

        A patience of 0 disables this; `heard` are the times of each peer's last byte. All in seconds of the clock that
        `silent` is given.
        """
        place: cython.int
        direction: DirectionPointer
        self.holder = holder
        # Without heartbeats, checking ten thousand connections would mean as many reads of cold memory every second.
        self._is_watched = patience[0] > 0 or patience[1] > 0
        for place in range(2):
            direction = cython.address(self._pumped.directions[place])
            direction.patience = patience[place]
            direction.heard_at = heard[place]
            direction.looked_received = look(cython.address(direction.received))

    def heard(self, place: cython.int) -> float | None:
        """Return the time of a watched peer's last byte known to `Pump.silent`; `None` if bytes have arrived since."""
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
        """The reason for which the connection was given back, one of `return_reasons`."""
        return self._pumped.reason

    def rest(self, place: cython.int) -> bytes:
        """Return the bytes received from a peer that the pump has not taken; they begin at a frame boundary."""
        direction: DirectionPointer = cython.address(self._pumped.directions[place])
        if direction.rest_size == 0:
            return b""
        return cython.cast(CharPointer, direction.rest)[: direction.rest_size]

    def unsent(self, place: cython.int) -> bytes:
        """Return the bytes taken from a peer that are still to be sent to the other."""
        direction: DirectionPointer = cython.address(self._pumped.directions[place])
        if direction.unsent_from == direction.unsent_end:
            return b""
        return cython.cast(CharPointer, direction.unsent)[direction.unsent_from : direction.unsent_end]

    def error(self, place: cython.int) -> int:
        """Return the errno of reading from a peer; 0 if there was none, and -1 if OpenSSL has already read the end."""
        direction: DirectionPointer = cython.address(self._pumped.directions[place])
        return direction.error if direction.error else direction.tls_failure

    def frames(self) -> int:
        """Return the number of forwarded frames."""
        return look(cython.address(self._pumped.directions[0].frames)) + look(
            cython.address(self._pumped.directions[1].frames)
        )
