"""Relaying of connections in their steady state, in C without the interpreter; `amqproxy.pump` describes the design.

This module and those that it imports call the system directly (epoll, recv, send) and have no pure Python form:
`IS_AVAILABLE` says whether this is the compiled one. The `.pyi` files contain the types, because type checkers do not
read C.
"""

from __future__ import annotations

from collections import deque

from amqproxy.pump.frame_scanner import FrameScanner
from amqproxy.pump.journal import Journal
from amqproxy.pump.latency_counts import LatencyCounts
from amqproxy.pump.pumped_connection import PumpedConnection
from amqproxy.pump.relay_loop import SCRATCH, RelayLoop

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

IS_AVAILABLE = bool(cython.compiled and AMQPROXY_HAS_EPOLL)

JOURNAL = 4 * 1024 * 1024
"""Size of one pump's journal in bytes."""

STUCK_AFTER = 0.1
"""Seconds after which a connection is given back if a peer takes nothing or leaves a frame of more than 4096 bytes
incomplete; the session has the proper time limits for both."""


@cython.final
@cython.cclass
class Pump:
    """A pump: relays the connections that it takes until it gives them back.

    `scanners` scan the received bytes, by the class of the connection, and `bounds` are those of the latencies in
    seconds. A connection is given back after `most_frames` frames, if that is not 0, and when a peer has taken nothing,
    or has not completed a larger frame, for `stuck_after` seconds.

    All methods except `run` and `turn` belong to one thread, the owner's. With `is_threaded`, another thread calls
    `run`; otherwise the owner calls `turn` whenever `descriptor` is readable. After the thread `has_ended`, connections
    can still be recalled. `OSError` if the system has no descriptors left, `MemoryError` if it has no memory.
    """

    def __init__(
        self,
        scanners: dict,
        bounds: tuple,
        *,
        most_frames: int = 0,
        stuck_after: float = STUCK_AFTER,
        is_threaded: bool = True,
        journal: int = JOURNAL,
    ) -> None:
        if not IS_AVAILABLE:
            raise NotImplementedError("a pump is compiled, and for Linux")
        self._is_open = True
        self._commands[0] = self._commands[1] = self._returns[0] = self._returns[1] = -1
        if new_pipe(self._commands) < 0 or new_pipe(self._returns) < 0:
            raise OSError(errno, "no descriptor for a pump")
        self._scanners = scanners
        self._connections = set()
        self._arrived = deque()
        self._asked = []
        self._most_frames = most_frames
        self.is_threaded = is_threaded
        self._journal = Journal(journal, SCRATCH)
        self._latencies = LatencyCounts(bounds)
        self._loop = RelayLoop(
            self._journal,
            self._latencies,
            self._commands[0],
            self._returns[1],
            stuck_after,
        )

    def __dealloc__(self) -> None:
        place: cython.int
        for place in range(2):
            if self._is_open and self._commands[place] >= 0:
                close_descriptor(self._commands[place])
            if self._is_open and self._returns[place] >= 0:
                close_descriptor(self._returns[place])

    # --- for the owner

    @property
    def descriptor(self) -> int:
        """A descriptor that is readable when `turn` has work."""
        return self._loop.epoll

    @property
    def returns_descriptor(self) -> int:
        """A descriptor that is readable when `receive_returned` has work."""
        return self._returns[0]

    @property
    def connections(self) -> int:
        """The number of connections held."""
        return len(self._connections)

    @property
    def has_deadline(self) -> bool:
        """Whether `turn` must be called within `STUCK_AFTER` seconds even if its descriptor is not readable."""
        return self._loop.has_stalled

    @property
    def has_unfinished(self) -> bool:
        """Whether `turn` has work although the descriptor is not readable."""
        return self._loop.has_unfinished

    @property
    def has_ended(self) -> bool:
        """Whether `run` has returned or is about to return."""
        return load(cython.address(self._loop.has_ended)) != 0

    def take(self, connection: PumpedConnection) -> None:
        """Take over a connection and relay it."""
        scanner: FrameScanner = self._scanners[type(connection)]
        connection._pumped.scanner = cython.cast(VoidPointer, scanner)
        connection._pumped.frames_left = self._most_frames if self._most_frames else -1
        connection.is_pumped = True
        self._connections.add(connection)
        self._command(connection._pumped, BEGIN)

    def recall(self, connection: PumpedConnection) -> None:
        """Take a connection back at once: its `returned` has been called when this returns.

        An exception of counting messages meanwhile is raised at the end.
        """
        descriptor: cython.int = self._returns[0]
        number: cython.ulonglong
        failure: object = None
        if not connection.is_pumped:
            return
        if not connection._has_arrived:
            self._recalls += 1
            number = self._recalls
            store(cython.address(self._loop.has_recall), 1)
            self._command(connection._pumped, RECALL)
            # Wait for the acknowledgement even if the connection arrives sooner: until then the pump may access it.
            # Acknowledgements arrive in the order of the recalls.
            while self._answered < number:
                if self._turns_itself():
                    with cython.nogil:
                        wait_for(descriptor, 0, 1000)
                else:
                    self._loop.turn(0)
                try:
                    self._read_returns()
                except BaseException as error:  # noqa: BLE001 - raised below
                    failure = error
        self._finish(connection)
        if failure is not None:
            raise failure

    def ask_back(self) -> None:
        """Request all connections, which then arrive through `receive_returned`."""
        connection: PumpedConnection
        for connection in list(self._connections):
            if not connection._has_arrived:
                self._recalls += 1
                self._asked.append(connection)  # until the acknowledgement arrives, the pump may access it
                store(cython.address(self._loop.has_recall), 1)
                self._command(connection._pumped, RECALL)

    def recall_all(self) -> None:
        """Take all connections back at once."""
        for connection in list(self._connections):
            self.recall(connection)

    def silent(self, now: float) -> list[object]:
        """Return the holders of connections with a peer that was silent for too long; to be called at intervals."""
        connection: PumpedConnection
        found: list = []
        for connection in self._connections:
            if connection._is_watched and connection._is_silent(now):
                found.append(connection.holder)
        return found

    @property
    def has_returned(self) -> bool:
        """Whether `receive_returned` has work although its descriptor is not readable."""
        return len(self._arrived) > 0

    def receive_returned(self, most: int = 1_000_000) -> None:
        """Read the journal, and then call `returned` of at most `most` connections that are back."""
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
        """Release an arrived connection to its owner."""
        connection.is_pumped = connection._has_arrived = False
        self._connections.discard(connection)
        connection.returned()
        return None

    @cython.cfunc
    def _read_returns(self) -> object:
        """Read the pump's messages: note returned connections and count the messages that passed on them."""
        message: PumpMessage
        connection: PumpedConnection
        while read_pipe(self._returns[0], cython.address(message), cython.sizeof(PumpMessage)) == cython.sizeof(
            PumpMessage
        ):
            if message.kind == ACKNOWLEDGED:
                self._answered += 1
                if self._answered == self._recalls:
                    self._asked.clear()
                continue
            if message.kind == RETURNED:
                connection = cython.cast(PumpedConnection, message.connection.object)
                connection._has_arrived = True
                self._arrived.append(connection)
            self.read_journal()
        return None

    def read_journal(self) -> None:
        """Pass the forwarded frames to the connections' `note`."""
        store(cython.address(self._loop.has_called), 0)
        self._journal.read()

    def collect(self) -> tuple[list[int], float]:
        """Add the counts since the last call to the tallies; return the latencies since then by bound and their sum.

        The sum is in seconds. Any thread that holds the interpreter's lock may call this.
        """
        for scanner in self._scanners.values():
            scanner.collect()
        return self._latencies.collect()

    def stop(self) -> None:
        """Make `run` return, after all connections are given back."""
        self._command(cython.NULL, STOP)

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
            if self._turns_itself():  # the pipe is full: the pump empties it soon
                with cython.nogil:
                    wait_for(descriptor, 1, 100)
            else:
                self._loop.turn(0)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _turns_itself(self) -> cython.bint:
        """Whether a thread runs the loop."""
        return self.is_threaded and not load(cython.address(self._loop.has_ended))

    # --- in the pump's thread

    def run(self) -> None:
        """Relay until `stop`, without holding the interpreter's lock."""
        loop: RelayLoop = self._loop
        with cython.nogil:
            loop.run()

    def turn(self) -> None:
        """Run one turn of the loop without waiting."""
        self._loop.turn(0)
