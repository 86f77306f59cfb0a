"""Relays connections in their steady state, in C and without the interpreter; `amqproxy.pump` has the design.

What is compiled here speaks to the system directly (epoll, recv, send), and so has no plain form: `IS_AVAILABLE` says
whether this is the compiled one. `pump.pyi` has the types, since no type checker reads C.

A long file, because the compiler inlines only what is in the same module, and all of it is on the way of every frame.
"""

from __future__ import annotations

from collections import deque

from amqproxy.amqp091.frame import BODY, FRAME_MIN_SIZE, HEADER, HEARTBEAT, METHOD, index_table
from amqproxy.amqp091.methods import BY_INDEX
from amqproxy.amqp091.tally import KINDS, METHOD_COUNT

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy import _cython as cython

IS_AVAILABLE = bool(cython.compiled and AMQPROXY_HAS_EPOLL)

METHOD_COMES, ENDED, GONE, STUCK, RECALLED, FORCED, LARGE, WRONG, CROWDED, TRICKLING = range(1, 11)
"""Why a pump gives a connection back: a frame that it does not know; a peer has closed its half; one is gone; one takes
nothing; it was asked to; it has had `most_frames`; a frame larger than its buffer; a frame that may not come; too much
is held of all; a frame that does not become whole."""

SCRATCH = 256 * 1024
"""Bytes received at once, what is held of an incomplete frame included; a larger frame is for the session."""

JOURNAL = 4 * 1024 * 1024
"""Bytes of one pump's journal."""

MOST_HELD = 64 * 1024 * 1024
"""Bytes that one pump holds of incomplete frames and of what is not sent yet; beyond, connections are given back."""

STUCK_AFTER = 0.1
"""Seconds in which a peer takes nothing, or its frame of more than 4096 bytes does not become whole, after which the
connection is given back: the session has the right bounds for both."""

_METHOD = cython.declare(cython.int, METHOD)
_HEADER = cython.declare(cython.int, HEADER)
_BODY = cython.declare(cython.int, BODY)
_HEARTBEAT = cython.declare(cython.int, HEARTBEAT)
_METHOD_COUNT = cython.declare(cython.int, METHOD_COUNT)
_SLOTS = cython.declare(cython.int, KINDS)
_UNKNOWN = cython.declare(cython.int, 0xFF)
_EVENTS = cython.declare(cython.int, 64)

_METHOD_COMES = cython.declare(cython.int, METHOD_COMES)
_ENDED = cython.declare(cython.int, ENDED)
_GONE = cython.declare(cython.int, GONE)
_STUCK = cython.declare(cython.int, STUCK)
_RECALLED = cython.declare(cython.int, RECALLED)
_FORCED = cython.declare(cython.int, FORCED)
_LARGE = cython.declare(cython.int, LARGE)
_WRONG = cython.declare(cython.int, WRONG)
_CROWDED = cython.declare(cython.int, CROWDED)
_TRICKLING = cython.declare(cython.int, TRICKLING)

_SCRATCH = cython.declare(cython.Py_ssize_t, SCRATCH)
_MOST_HELD = cython.declare(cython.ulonglong, MOST_HELD)
_SMALL = cython.declare(cython.Py_ssize_t, FRAME_MIN_SIZE)
_STUCK_MS = cython.declare(cython.int, 50)
_LOOK_NS = cython.declare(cython.ulonglong, 10_000_000)
_CUT_ABOVE = cython.declare(cython.ulonglong, 256)
"""Bytes a frame, on average, above which the journal leaves bodies out."""

# What goes through the pipes: to the pump, and from it.
_BEGIN = cython.declare(cython.longlong, 1)
_RECALL = cython.declare(cython.longlong, 2)
_STOP = cython.declare(cython.longlong, 3)
_RETURNED = cython.declare(cython.longlong, 1)
_ACK = cython.declare(cython.longlong, 2)
_CALL = cython.declare(cython.longlong, 3)


@cython.nogil
@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _long(p: ConstBytePointer, at: cython.Py_ssize_t) -> cython.longlong:
    return (
        cython.cast(cython.ulonglong, p[at]) << 24
        | cython.cast(cython.ulonglong, p[at + 1]) << 16
        | cython.cast(cython.ulonglong, p[at + 2]) << 8
        | cython.cast(cython.ulonglong, p[at + 3])
    )


@cython.nogil
@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _long_long(p: ConstBytePointer, at: cython.Py_ssize_t) -> cython.ulonglong:
    return cython.cast(cython.ulonglong, _long(p, at)) << 32 | cython.cast(cython.ulonglong, _long(p, at + 4))


@cython.nogil
@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _channel_of(direction: DirectionPointer, number: cython.int) -> ChannelContentPointer:
    """The channel of a number; NULL where it is not open."""
    low: cython.int = 0
    high: cython.int = direction.channel_count
    middle: cython.int
    if direction.recent < high and direction.channels[direction.recent].number == number:
        return cython.address(direction.channels[direction.recent])
    while low < high:
        middle = (low + high) // 2
        if direction.channels[middle].number < number:
            low = middle + 1
        else:
            high = middle
    if low == direction.channel_count or direction.channels[low].number != number:
        return cython.NULL
    direction.recent = low
    return cython.address(direction.channels[low])


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


@cython.final
@cython.cclass
class PumpedConnection:
    """One connection that a pump is to relay, and what it has got from it when it is given back.

    `readers` and `descriptors` are the client's and the server's: the readers know no content that has to be shown, and
    what they hold of an incomplete frame is the pump's from here on. `returned` is called once it is back. `note` is
    given what has passed, if it is metered: whether the server sent it, the bytes, the time in seconds of the monotonic
    clock, and whether bodies are left out. `holder` is what watches for silent peers, if something does: see `watch`.
    """

    def __init__(self, readers: tuple, descriptors: tuple, returned: object, note: object = None) -> None:
        place: cython.int
        direction: DirectionPointer
        self.readers = readers
        self.returned = returned
        self.note = note
        self.holder = None
        self.is_pumped = self._has_arrived = False
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
            self._load(readers[place], direction)
        for place in range(2):  # only now, that nothing can fail any more
            reader: FrameReader = readers[place]
            reader._tail = None

    def __dealloc__(self) -> None:
        if self._pumped != cython.NULL:
            _free_direction(cython.address(self._pumped.directions[0]))
            _free_direction(cython.address(self._pumped.directions[1]))
            free(self._pumped)
            self._pumped = cython.NULL

    @cython.cfunc
    def _load(self, reader: FrameReader, direction: DirectionPointer) -> object:
        held: bytes = reader.held
        size: cython.Py_ssize_t = len(held)
        p: cython.p_const_uchar = held
        state: ContentState
        place: cython.Py_ssize_t
        direction.payload_max = reader._payload_max
        direction.is_read = True
        if size:
            direction.rest = cython.cast(BytePointer, malloc(size))
            if direction.rest == cython.NULL:
                raise MemoryError
            memcpy(direction.rest, p, size)
            direction.rest_size = size
        direction.channel_count = len(reader.content_states)
        if direction.channel_count:
            direction.channels = cython.cast(
                ChannelContentPointer, calloc(direction.channel_count, cython.sizeof(ChannelContent))
            )
            if direction.channels == cython.NULL:
                raise MemoryError
        for place, number in enumerate(sorted(reader.content_states)):
            state = reader.content_states[number]
            direction.channels[place].number = number
            direction.channels[place].expects = state.expects
            direction.channels[place].index = state.index
            direction.channels[place].remaining = state.remaining
            direction.channels[place].contents = state.contents
        return None

    def show(self) -> tuple[int, int]:
        """Have the readers know what has passed so far; how many bytes came from each peer since this was last asked.

        While the connection is pumped, that is as it was a moment ago.
        """
        found: list = []
        place: cython.int
        direction: DirectionPointer
        received: cython.ulonglong
        for place in range(2):
            direction = cython.address(self._pumped.directions[place])
            if self.readers is not None:
                self._show(self.readers[place], direction)
            received = look(cython.address(direction.received))
            found.append(received - direction.shown_received)
            direction.shown_received = received
        return tuple(found)

    @cython.cfunc
    def _show(self, reader: FrameReader, direction: DirectionPointer) -> object:
        taken: cython.ulonglong = look(cython.address(direction.taken))
        frames: cython.ulonglong = look(cython.address(direction.frames))
        state: ContentState
        channel: ChannelContentPointer
        place: cython.int
        reader.offset += taken - direction.shown_taken
        reader.frames += frames - direction.shown_frames
        direction.shown_taken = taken
        direction.shown_frames = frames
        for place in range(direction.channel_count):
            state = reader.content_states.get(direction.channels[place].number)
            if state is not None:
                channel = cython.address(direction.channels[place])
                state.expects = look_int(cython.address(channel.expects))
                state.index = look_int(cython.address(channel.index))
                state.remaining = look(cython.address(channel.remaining))
                state.contents = look(cython.address(channel.contents))
        return None

    def adopt(self, readers: tuple | None, frames: tuple = (0, 0)) -> None:
        """Have other readers, which had so many frames when the connection was handed over, know from the next `show`
        on what has passed since then; None: there are none.
        """
        place: cython.int
        direction: DirectionPointer
        self.readers = readers
        for place in range(2):
            direction = cython.address(self._pumped.directions[place])
            direction.shown_taken = direction.shown_frames = 0
            if readers is not None:
                reader: FrameReader = readers[place]
                reader.frames = frames[place]

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


@cython.final
@cython.cclass
class Pump:
    """Relays the connections that it is given, until it gives them back.

    `keeps` are, for the client and for the server, the methods before which a connection is given back: a 1 at the
    index of each. `tallies` of both count the frames, and `bounds`, in seconds, are those of the latencies. After
    `most_frames` frames a connection is given back, if that is not 0; and when a peer has taken nothing, or has not
    completed a larger frame, for `stuck_after` seconds.

    All but `run` and `turn` is for one thread, the owner's. With `is_threaded`, another thread calls `run`; else the
    owner calls `turn` whenever `descriptor` is readable. `OSError` where the system has no descriptors left.
    """

    def __init__(
        self,
        keeps: tuple,
        tallies: tuple,
        bounds: tuple,
        *,
        most_frames: int = 0,
        stuck_after: float = STUCK_AFTER,
        is_threaded: bool = True,
        journal: int = JOURNAL,
    ) -> None:
        if not IS_AVAILABLE:
            raise NotImplementedError("a pump is compiled, and for Linux")
        place: cython.int
        index: cython.int
        count: cython.int
        keep: bytes
        event: epoll_event
        p: cython.p_const_uchar
        self._epoll = self._commands[0] = self._commands[1] = self._returns[0] = self._returns[1] = -1
        self._stuck_ns = int(stuck_after * 1e9)
        self._tallies = tallies
        self._connections = set()
        self._arrived = deque()
        self._most_frames = most_frames
        self.is_threaded = is_threaded
        self._journal_size = journal
        self._bound_count = len(bounds)
        index_of = index_table()
        carries = bytes([cls.carries_content for cls in BY_INDEX])
        self._tables = (index_of, carries)
        p = index_of
        self._index_of = p
        p = carries
        self._carries = p
        for place in range(2):
            keep = keeps[place]
            for index in range(METHOD_COUNT):
                self._keeps[place][index] = keep[index]
        count = 2 * _SLOTS
        self._scratch = cython.cast(BytePointer, malloc(_SCRATCH))
        self._journal = cython.cast(BytePointer, malloc(self._journal_size))
        self._frames = cython.cast(CounterPointer, calloc(count, 8))
        self._bytes = cython.cast(CounterPointer, calloc(count, 8))
        self._reported_frames = cython.cast(CounterPointer, calloc(count, 8))
        self._reported_bytes = cython.cast(CounterPointer, calloc(count, 8))
        self._latency = cython.cast(CounterPointer, calloc(self._bound_count + 1, 8))
        self._reported_latency = cython.cast(CounterPointer, calloc(self._bound_count + 1, 8))
        self._bounds = cython.cast(CounterPointer, calloc(self._bound_count + 1, 8))
        if (
            self._scratch == cython.NULL
            or self._journal == cython.NULL
            or self._frames == cython.NULL
            or self._bytes == cython.NULL
            or self._reported_frames == cython.NULL
            or self._reported_bytes == cython.NULL
            or self._latency == cython.NULL
            or self._reported_latency == cython.NULL
            or self._bounds == cython.NULL
        ):
            raise MemoryError
        for place in range(self._bound_count):
            self._bounds[place] = int(bounds[place] * 1e9)
        self._epoll = epoll_create1(0o2000000)  # EPOLL_CLOEXEC
        if self._epoll < 0 or new_pipe(self._commands) < 0 or new_pipe(self._returns) < 0:
            raise OSError(errno, "no descriptor for a pump")
        event.events = EPOLLIN
        event.data.ptr = cython.NULL
        if epoll_ctl(self._epoll, EPOLL_CTL_ADD, self._commands[0], cython.address(event)) < 0:
            raise OSError(errno, "no place for a pump")

    def __dealloc__(self) -> None:
        for descriptor in (self._epoll, self._commands[0], self._commands[1], self._returns[0], self._returns[1]):
            if descriptor >= 0:
                close_descriptor(descriptor)
        free(self._scratch)
        free(self._journal)
        free(self._frames)
        free(self._bytes)
        free(self._reported_frames)
        free(self._reported_bytes)
        free(self._latency)
        free(self._reported_latency)
        free(self._bounds)

    # --- for the owner

    @property
    def descriptor(self) -> int:
        """Readable when there is something for `turn`."""
        return self._epoll

    @property
    def returns_descriptor(self) -> int:
        """Readable when there is something for `receive_returned`."""
        return self._returns[0]

    @property
    def connections(self) -> int:
        """How many it has."""
        return len(self._connections)

    @property
    def has_deadline(self) -> bool:
        """Is `turn` to be called within `STUCK_AFTER` though nothing is readable?"""
        return self._listed != cython.NULL

    def take(self, connection: PumpedConnection) -> None:
        """Relay a connection from here on."""
        connection._pumped.frames_left = self._most_frames if self._most_frames else -1
        connection.is_pumped = True
        self._connections.add(connection)
        self._command(connection._pumped, _BEGIN)

    def recall(self, connection: PumpedConnection) -> None:
        """Have a connection back at once: its `returned` has been called when this returns."""
        descriptor: cython.int = self._returns[0]
        if not connection.is_pumped:
            return
        if not connection._has_arrived:
            self._is_acked = False
            self._command(connection._pumped, _RECALL)
            # The answer is waited for even if the connection comes sooner: until then, the pump may look at it.
            while not self._is_acked:
                if not self.is_threaded:
                    self._turn(0)
                else:
                    with cython.nogil:
                        wait_for(descriptor, 0, 1000)
                self._read_returns()
        self._finish(connection)

    def recall_all(self) -> None:
        """Have all connections back."""
        for connection in list(self._connections):
            self.recall(connection)

    def silent(self, now: float) -> list[object]:
        """The holders of connections of which a peer has been silent for too long; to be asked at intervals."""
        connection: PumpedConnection
        found: list = []
        for connection in self._connections:
            if connection.holder is not None and connection._is_silent(now):
                found.append(connection.holder)
        return found

    @property
    def has_returned(self) -> bool:
        """Is there more for `receive_returned`, though its descriptor is not readable?"""
        return len(self._arrived) > 0

    def receive_returned(self, most: int = 1_000_000) -> None:
        """Call `returned` of the connections that are back, `most` of them at a time; read the journal before."""
        connection: PumpedConnection
        left: cython.Py_ssize_t = most
        self._read_returns()
        while self._arrived:
            connection = self._arrived[0]
            if connection._has_arrived and left == 0:
                break
            self._arrived.popleft()
            if connection._has_arrived:
                left -= 1
                self._finish(connection)

    @cython.cfunc
    def _finish(self, connection: PumpedConnection) -> object:
        """A connection that has arrived is the owner's from here on."""
        connection.is_pumped = connection._has_arrived = False
        self._connections.discard(connection)
        connection.returned()
        return None

    @cython.cfunc
    def _read_returns(self) -> object:
        """Note which connections are back, and have counted what has passed on them."""
        message: PumpMessage
        connection: PumpedConnection
        while read_pipe(self._returns[0], cython.address(message), cython.sizeof(PumpMessage)) == cython.sizeof(
            PumpMessage
        ):
            if message.kind == _ACK:
                self._is_acked = True
                continue
            self.read_journal()
            if message.kind == _RETURNED:
                connection = cython.cast(PumpedConnection, message.connection.object)
                connection._has_arrived = True
                self._arrived.append(connection)
        return None

    def read_journal(self) -> None:
        """Give the connections' `note` what has passed on them so far."""
        start: cython.ulonglong = self._journal_start
        end: cython.ulonglong
        store(cython.address(self._has_called), 0)
        end = load(cython.address(self._journal_end))
        base: cython.ulonglong = look(cython.address(self._journal_base))
        place: cython.ulonglong
        head: JournalHeadPointer
        connection: PumpedConnection
        while start != end:
            place = (start - base) % self._journal_size
            if self._journal_size - place < cython.sizeof(JournalHead):
                start += self._journal_size - place
                continue
            head = cython.cast(JournalHeadPointer, self._journal + place)
            try:
                if head.connection != cython.NULL:
                    connection = cython.cast(PumpedConnection, head.connection.object)
                    connection.note(
                        head.is_server != 0,
                        PyMemoryView_FromMemory(
                            cython.cast(CharPointer, self._journal + place + cython.sizeof(JournalHead)),
                            head.size,
                            PyBUF_READ,
                        ),
                        head.at * 1e-9,
                        head.is_cut != 0,
                    )
            finally:
                start += (cython.sizeof(JournalHead) + head.size + 7) & ~cython.cast(cython.ulonglong, 7)
                store(cython.address(self._journal_start), start)
        store(cython.address(self._journal_start), start)

    def collect(self) -> tuple[list[int], float]:
        """Add to the tallies what was counted since this was last asked; the latencies since then: by their bounds, and
        their sum in seconds. For any thread that holds the interpreter's lock.
        """
        place: cython.int
        slot: cython.int
        at: cython.int
        count: cython.ulonglong
        delta: cython.ulonglong
        for place in range(2):
            tally: Tally = self._tallies[place]
            for slot in range(_SLOTS):
                at = place * _SLOTS + slot
                count = look(cython.address(self._frames[at]))
                if count != self._reported_frames[at]:
                    delta = count - self._reported_frames[at]
                    self._reported_frames[at] = count
                    tally._frames[slot] += delta
                count = look(cython.address(self._bytes[at]))
                if count != self._reported_bytes[at]:
                    delta = count - self._reported_bytes[at]
                    self._reported_bytes[at] = count
                    tally._byte_counts[slot] += delta
        latencies: list = []
        for slot in range(self._bound_count + 1):
            count = look(cython.address(self._latency[slot]))
            delta = count - self._reported_latency[slot]
            self._reported_latency[slot] = count
            latencies.append(delta)
        count = look(cython.address(self._latency_total))
        delta = count - self._reported_total
        self._reported_total = count
        return latencies, delta * 1e-9

    def stop(self) -> None:
        """Have `run` return. The pump has no connection any more."""
        self._command(cython.NULL, _STOP)

    @cython.cfunc
    def _command(self, connection: PumpedPointer, kind: cython.longlong) -> object:
        message: PumpMessage
        descriptor: cython.int = self._commands[1]
        written: cython.longlong
        message.connection = connection
        message.kind = kind
        while True:
            written = write_pipe(descriptor, cython.address(message), cython.sizeof(PumpMessage))
            if written == cython.sizeof(PumpMessage):
                return None
            if not self.is_threaded:
                self._turn(0)
            else:  # the pipe is full: the pump empties it soon
                with cython.nogil:
                    wait_for(descriptor, 1, 100)

    # --- in the pump's thread

    def run(self) -> None:
        """Relay until `stop`. It holds no lock of the interpreter's meanwhile."""
        with cython.nogil:
            while not self._is_stopping:
                self._turn(-1)

    def turn(self) -> None:
        """Relay what can be relayed now, once round."""
        self._turn(0)

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _turn(self, milliseconds: cython.int) -> cython.int:
        count: cython.int
        i: cython.int
        has_commands: cython.int = False
        if not self._has_room():
            self._call()
            wait_for(self._commands[0], 0, 1 if milliseconds else 0)
            self._take_commands()
            self._send_back()
            return 0
        if self._leaving != cython.NULL or self._acks_due:
            milliseconds = 1 if milliseconds else 0
        elif self._listed != cython.NULL and milliseconds < 0:
            milliseconds = _STUCK_MS
        count = epoll_wait(self._epoll, self._events, _EVENTS, milliseconds)
        for i in range(count):
            if self._events[i].data.ptr == cython.NULL:
                has_commands = True
            else:
                self._handle(cython.cast(DirectionPointer, self._events[i].data.ptr), self._events[i].events)
        if has_commands:
            self._take_commands()
        if self._listed != cython.NULL:
            self._give_back_slow(now_ns())
        self._send_back()
        return count

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _take_commands(self) -> cython.void:
        message: PumpMessage
        while read_pipe(self._commands[0], cython.address(message), cython.sizeof(PumpMessage)) == cython.sizeof(
            PumpMessage
        ):
            if message.kind == _BEGIN:
                self._begin(message.connection)
            elif message.kind == _RECALL:
                if message.connection.is_here:
                    self._give_back(message.connection, _RECALLED)
                self._acks_due += 1
            else:
                self._is_stopping = True

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _begin(self, connection: PumpedPointer) -> cython.void:
        client: DirectionPointer = cython.address(connection.directions[0])
        server: DirectionPointer = cython.address(connection.directions[1])
        connection.is_here = True
        add(cython.address(self._held), client.rest_size + server.rest_size)
        if client.rest_size > _SMALL:
            self._list(client, now_ns())
        if server.rest_size > _SMALL:
            self._list(server, now_ns())
        if self._register(client, EPOLL_CTL_ADD) < 0 or self._register(server, EPOLL_CTL_ADD) < 0:
            self._give_back(connection, _CROWDED)

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _register(self, direction: DirectionPointer, operation: cython.int) -> cython.int:
        """Wait for what is to be waited for at the source of a direction, which is the target of the other one."""
        event: epoll_event
        connection: PumpedPointer = cython.cast(PumpedPointer, direction.owner)
        event.events = 0
        if direction.is_read:
            event.events = EPOLLIN
        if connection.directions[1 - direction.place].is_waiting:
            event.events |= EPOLLOUT
        event.data.ptr = direction
        return epoll_ctl(self._epoll, operation, direction.source, cython.address(event))

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _give_back(self, connection: PumpedPointer, reason: cython.int) -> cython.void:
        place: cython.int
        direction: DirectionPointer
        connection.is_here = False
        connection.reason = reason
        for place in range(2):
            direction = cython.address(connection.directions[place])
            self._register(direction, EPOLL_CTL_DEL)
            direction.is_waiting = False
            self._unlist(direction)
            add(
                cython.address(self._held),
                0 - cython.cast(cython.ulonglong, direction.rest_size + direction.unsent_end - direction.unsent_from),
            )
        connection.next_leaving = self._leaving
        self._leaving = connection

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _send_back(self) -> cython.void:
        """Hand over what is to be given back; from then on, it is the owner's, and may be gone.

        That is only done once no event of this turn is left, which could be about it.
        """
        message: PumpMessage
        rest: PumpedPointer
        message.kind = _RETURNED
        while self._leaving != cython.NULL:
            message.connection = self._leaving
            rest = self._leaving.next_leaving
            if write_pipe(self._returns[1], cython.address(message), cython.sizeof(PumpMessage)) < 0:
                return
            self._leaving = rest
        message.kind = _ACK
        message.connection = cython.NULL
        while self._acks_due:
            if write_pipe(self._returns[1], cython.address(message), cython.sizeof(PumpMessage)) < 0:
                return
            self._acks_due -= 1

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _handle(self, direction: DirectionPointer, events: cython.uint) -> cython.void:
        """Do what the source of a direction is ready for."""
        connection: PumpedPointer = cython.cast(PumpedPointer, direction.owner)
        other: DirectionPointer = cython.address(connection.directions[1 - direction.place])
        if connection.is_here and events & EPOLLOUT and other.is_waiting:
            self._flush(other)
        if not connection.is_here:
            return
        if events & EPOLLIN and direction.is_read:
            self._receive(direction)
        elif events & (EPOLLERR | EPOLLHUP):
            self._give_back(connection, _GONE)

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _receive(self, direction: DirectionPointer) -> cython.void:
        """Receive once, and send on the whole frames."""
        connection: PumpedPointer = cython.cast(PumpedPointer, direction.owner)
        scratch: BytePointer = self._scratch
        size: cython.Py_ssize_t = direction.rest_size
        end: cython.Py_ssize_t
        left: cython.Py_ssize_t
        got: cython.longlong
        sent: cython.longlong = 0
        reason: cython.int = 0
        began: cython.ulonglong
        frames: cython.ulonglong = direction.frames
        kept: BytePointer
        if not self._has_room():
            return  # it is readable still, when there is
        if size:
            memcpy(scratch, direction.rest, size)
        got = receive_bytes(direction.source, scratch + size, _SCRATCH - size)
        if got <= 0:
            if got == 0:
                self._give_back(connection, _ENDED)
            elif errno != EAGAIN and errno != EINTR:
                direction.error = errno
                self._give_back(connection, _GONE)
            return
        began = now_ns()
        add(cython.address(direction.received), got)
        size += got
        end = self._scan(direction, scratch, size, cython.address(reason))
        if end:
            add(cython.address(direction.taken), end)
            sent = send_bytes(direction.target, scratch, end)
            if sent < 0:
                if errno != EAGAIN and errno != EINTR:
                    reason = _GONE
                sent = 0
            if sent < end:
                direction.unsent = cython.cast(BytePointer, malloc(end - sent))
                if direction.unsent == cython.NULL:
                    direction.error = ENOMEM
                    reason = _GONE
                else:
                    memcpy(direction.unsent, scratch + sent, end - sent)
                    direction.unsent_from = 0
                    direction.unsent_end = end - sent
                    add(cython.address(self._held), end - sent)
                    if not reason:
                        self._wait_for_room(direction, began)
            self._observe(now_ns() - began)
            if connection.is_metered:
                self._write_journal(direction, scratch, end, direction.frames - frames, began)
        left = size - end
        if left or direction.rest_size:
            kept = direction.rest
            add(cython.address(self._held), left - direction.rest_size)
            direction.rest = cython.NULL
            direction.rest_size = 0
            free(kept)
            if left:
                direction.rest = cython.cast(BytePointer, malloc(left))
                if direction.rest == cython.NULL:
                    direction.error = ENOMEM
                    reason = _GONE
                else:
                    memcpy(direction.rest, scratch + end, left)
                    direction.rest_size = left
                    if not reason and left > _SMALL and self._held > _MOST_HELD:
                        reason = _CROWDED
        if end and direction.is_listed and not direction.is_waiting:
            self._unlist(direction)
        if left > _SMALL and not direction.is_listed:
            self._list(direction, began)
        if reason:
            self._give_back(connection, reason)

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _wait_for_room(self, direction: DirectionPointer, now: cython.ulonglong) -> cython.void:
        """Read no more of a direction until its target has taken what is unsent."""
        connection: PumpedPointer = cython.cast(PumpedPointer, direction.owner)
        put_int(cython.address(direction.is_read), False)
        direction.is_waiting = True
        self._unlist(direction)
        self._list(direction, now)
        self._register(direction, EPOLL_CTL_MOD)
        self._register(cython.address(connection.directions[1 - direction.place]), EPOLL_CTL_MOD)

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _flush(self, direction: DirectionPointer) -> cython.void:
        """Send on what is unsent of a direction, and read again once that is all."""
        connection: PumpedPointer = cython.cast(PumpedPointer, direction.owner)
        left: cython.Py_ssize_t = direction.unsent_end - direction.unsent_from
        sent: cython.longlong = send_bytes(direction.target, direction.unsent + direction.unsent_from, left)
        if sent < 0:
            if errno != EAGAIN and errno != EINTR:
                self._give_back(connection, _GONE)
            return
        add(cython.address(self._held), 0 - cython.cast(cython.ulonglong, sent))
        direction.unsent_from += sent
        direction.listed_at = now_ns()
        if sent < left:
            return
        free(direction.unsent)
        direction.unsent = cython.NULL
        direction.unsent_from = direction.unsent_end = 0
        put_int(cython.address(direction.is_read), True)
        direction.is_waiting = False
        if direction.rest_size <= _SMALL:
            self._unlist(direction)
        self._register(direction, EPOLL_CTL_MOD)
        self._register(cython.address(connection.directions[1 - direction.place]), EPOLL_CTL_MOD)

    # --- directions that make no progress

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _list(self, direction: DirectionPointer, now: cython.ulonglong) -> cython.void:
        direction.is_listed = True
        direction.listed_at = now
        direction.last_listed = cython.NULL
        direction.next_listed = self._listed
        if self._listed != cython.NULL:
            self._listed.last_listed = direction
        self._listed = direction

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _unlist(self, direction: DirectionPointer) -> cython.void:
        if not direction.is_listed:
            return
        direction.is_listed = False
        if direction.last_listed != cython.NULL:
            direction.last_listed.next_listed = direction.next_listed
        else:
            self._listed = direction.next_listed
        if direction.next_listed != cython.NULL:
            direction.next_listed.last_listed = direction.last_listed
        direction.next_listed = direction.last_listed = cython.NULL

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _give_back_slow(self, now: cython.ulonglong) -> cython.void:
        """Give back the connections of which a peer has taken nothing, or has left a frame incomplete, for long."""
        direction: DirectionPointer = self._listed
        following: DirectionPointer
        if self._stuck_ns and now - self._looked_at < _LOOK_NS:
            return
        self._looked_at = now
        while direction != cython.NULL:
            following = direction.next_listed
            if now - direction.listed_at >= self._stuck_ns:
                if following != cython.NULL and following.owner == direction.owner:
                    following = following.next_listed
                self._give_back(
                    cython.cast(PumpedPointer, direction.owner), _STUCK if direction.is_waiting else _TRICKLING
                )
            direction = following

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _scan(
        self, direction: DirectionPointer, p: ConstBytePointer, length: cython.Py_ssize_t, reason: IntPointer
    ) -> cython.Py_ssize_t:
        """Go over the whole frames, and count them: the place where they end, or where one is that is not for a pump.

        As `FrameReader` has it; what would be an error there is left to it.
        """
        position: cython.Py_ssize_t = 0
        whole: cython.longlong
        size: cython.longlong
        kind: cython.int
        index: cython.int
        slot: cython.int
        why: cython.int = 0
        frames: cython.ulonglong = 0
        channel: ChannelContentPointer
        connection: PumpedPointer = cython.cast(PumpedPointer, direction.owner)
        frames_seen: CounterPointer = self._frames + direction.place * _SLOTS
        bytes_seen: CounterPointer = self._bytes + direction.place * _SLOTS
        while length - position >= 7:
            kind = p[position]
            size = _long(p, position + 3)
            whole = size + 8
            if size > direction.payload_max:
                why = _WRONG
                break
            if whole > _SCRATCH:
                why = _LARGE
                break
            if length - position < whole:
                if kind == _METHOD and size >= 4 and length - position >= 11:
                    index = self._index_of[p[position + 8] * 256 + p[position + 10]]
                    if index == _UNKNOWN or self._keeps[direction.place][index]:
                        why = _METHOD_COMES
                break
            if p[position + whole - 1] != 0xCE:
                why = _WRONG
                break
            if connection.frames_left == 0:
                why = _FORCED
                break
            if kind == _HEARTBEAT:
                if size != 0 or p[position + 1] | p[position + 2]:
                    why = _WRONG
                    break
                slot = 4 * _METHOD_COUNT
            else:
                channel = _channel_of(direction, (p[position + 1] << 8) | p[position + 2])
                if kind == _METHOD:
                    index = _UNKNOWN
                    if size >= 4 and p[position + 7] | p[position + 9] == 0:
                        index = self._index_of[p[position + 8] * 256 + p[position + 10]]
                    if index == _UNKNOWN or self._keeps[direction.place][index] or channel == cython.NULL:
                        why = _METHOD_COMES
                        break
                    if channel.expects != _METHOD:
                        why = _WRONG
                        break
                    if self._carries[index]:
                        put_int(cython.address(channel.expects), _HEADER)
                        put_int(cython.address(channel.index), index)
                        add(cython.address(channel.contents), 1)
                    slot = index
                elif channel == cython.NULL:
                    why = _WRONG
                    break
                elif kind == _HEADER:
                    if (
                        channel.expects != _HEADER
                        or size < 12
                        or p[position + 7] | (p[position + 8] ^ 60) | p[position + 9] | p[position + 10]
                    ):
                        why = _WRONG
                        break
                    put(cython.address(channel.remaining), _long_long(p, position + 11))
                    put_int(cython.address(channel.expects), _BODY if channel.remaining > 0 else _METHOD)
                    slot = _METHOD_COUNT + channel.index
                elif kind == _BODY:
                    if channel.expects != _BODY or cython.cast(cython.ulonglong, size) > channel.remaining:
                        why = _WRONG
                        break
                    put(cython.address(channel.remaining), channel.remaining - size)
                    if channel.remaining == 0:
                        put_int(cython.address(channel.expects), _METHOD)
                    slot = 2 * _METHOD_COUNT + channel.index
                else:
                    why = _WRONG
                    break
            add(cython.address(frames_seen[slot]), 1)
            add(cython.address(bytes_seen[slot]), whole)
            frames += 1
            if connection.frames_left > 0:
                connection.frames_left -= 1
            position += whole
        add(cython.address(direction.frames), frames)
        reason[0] = why
        return position

    # --- the journal

    @cython.nogil
    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _has_room(self) -> cython.int:
        """Does the journal take another chunk, wherever in it that begins?"""
        used: cython.ulonglong = self._journal_end - load(cython.address(self._journal_start))
        return self._journal_size - used > 2 * (cython.cast(cython.ulonglong, _SCRATCH) + 64)

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _write_journal(
        self,
        direction: DirectionPointer,
        data: ConstBytePointer,
        size: cython.Py_ssize_t,
        frames: cython.ulonglong,
        now: cython.ulonglong,
    ) -> cython.void:
        """Write down whole frames that have passed; where they are large, without the bodies, of whose frames there
        are the first seven bytes.
        """
        end: cython.ulonglong = self._journal_end
        place: cython.ulonglong
        head: JournalHeadPointer
        out: BytePointer
        position: cython.Py_ssize_t = 0
        whole: cython.Py_ssize_t
        written: cython.Py_ssize_t = 0
        part: cython.Py_ssize_t
        if end == load(cython.address(self._journal_start)):
            # All is read: begin again at the start, whose pages are warm. The owner sees that once it has seen `end`.
            put(cython.address(self._journal_base), end)
        place = (end - self._journal_base) % self._journal_size
        if self._journal_size - place < cython.sizeof(JournalHead) + size:
            if self._journal_size - place >= cython.sizeof(JournalHead):
                head = cython.cast(JournalHeadPointer, self._journal + place)
                head.connection = cython.NULL
                head.size = self._journal_size - place - cython.sizeof(JournalHead)
            end += self._journal_size - place
            place = 0
        head = cython.cast(JournalHeadPointer, self._journal + place)
        out = self._journal + place + cython.sizeof(JournalHead)
        head.connection = cython.cast(PumpedPointer, direction.owner)
        head.at = now
        head.is_server = direction.place
        head.is_cut = cython.cast(cython.ulonglong, size) > frames * _CUT_ABOVE
        if not head.is_cut:
            memcpy(out, data, size)
            written = size
        else:
            while position < size:
                whole = _long(data, position + 3) + 8
                part = 7 if data[position] == _BODY else whole
                memcpy(out + written, data + position, part)
                written += part
                position += whole
        head.size = written
        end += (cython.sizeof(JournalHead) + written + 7) & ~cython.cast(cython.ulonglong, 7)
        store(cython.address(self._journal_end), end)
        if end - load(cython.address(self._journal_start)) > self._journal_size // 2:
            self._call()

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _call(self) -> cython.void:
        """Ask the owner to read the journal, once until it does."""
        message: PumpMessage
        if not load(cython.address(self._has_called)):
            message.connection = cython.NULL
            message.kind = _CALL
            # Before the call: the owner may read it, and clear this, at once.
            store(cython.address(self._has_called), 1)
            if write_pipe(self._returns[1], cython.address(message), cython.sizeof(PumpMessage)) < 0:
                store(cython.address(self._has_called), 0)

    @cython.nogil
    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _observe(self, nanoseconds: cython.ulonglong) -> cython.void:
        slot: cython.int = 0
        while slot < self._bound_count and nanoseconds > self._bounds[slot]:
            slot += 1
        add(cython.address(self._latency[slot]), 1)
        add(cython.address(self._latency_total), nanoseconds)
