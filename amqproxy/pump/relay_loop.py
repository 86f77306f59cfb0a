"""The loop of a pump's thread: waits, receives, scans, sends and gives connections back, all without Python."""

from __future__ import annotations

from amqproxy.pump.frame_scanner import FrameScanner
from amqproxy.pump.journal import Journal
from amqproxy.pump.latency_counts import LatencyCounts
from amqproxy.pump.return_reasons import CROWDED, ENDED, GONE, RECALLED, STUCK, TRICKLING
from amqproxy.pump.stalled_directions import StalledDirections

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

SCRATCH = 256 * 1024
"""Receive buffer in bytes, including those held of an incomplete frame; a larger frame is left to the session."""

MOST_HELD = 64 * 1024 * 1024
"""Maximum bytes that one pump holds of incomplete frames and unsent data; beyond that, connections are given back."""

SMALL = 4096
"""Bytes of an incomplete frame that may be held for long: frames of this size are allowed in any negotiation."""

_EVENTS = cython.declare(cython.int, 64)

_ENDED = cython.declare(cython.int, ENDED)
_GONE = cython.declare(cython.int, GONE)
_STUCK = cython.declare(cython.int, STUCK)
_RECALLED = cython.declare(cython.int, RECALLED)
_CROWDED = cython.declare(cython.int, CROWDED)
_TRICKLING = cython.declare(cython.int, TRICKLING)

_SCRATCH = cython.declare(cython.Py_ssize_t, SCRATCH)
_MOST_HELD = cython.declare(cython.ulonglong, MOST_HELD)
_SMALL = cython.declare(cython.Py_ssize_t, SMALL)
_STUCK_MS = cython.declare(cython.int, 50)
_LOOK_NS = cython.declare(cython.ulonglong, 10_000_000)


@cython.final
@cython.cclass
class RelayLoop:
    """The loop of one pump, which reads from the pipe `commands` and writes to `returns`; see `pump_message`.

    The scanner of a connection counts its frames and writes them into the `journal`; `latencies` counts their time in
    the proxy. A connection is given back when a peer has taken nothing, or has not completed a larger frame, for
    `stuck_after` seconds. `OSError` if the system has no descriptor left.
    """

    def __init__(
        self,
        journal: Journal,
        latencies: LatencyCounts,
        commands: int,
        returns: int,
        stuck_after: float,
    ) -> None:
        event: epoll_event
        self.epoll = -1
        self._journal = journal
        self._latencies = latencies
        self._stalled = StalledDirections()
        self._commands = commands
        self._returns = returns
        self._stuck_ns = int(stuck_after * 1e9)
        self._scratch = cython.cast(BytePointer, malloc(_SCRATCH))
        if self._scratch == cython.NULL:
            raise MemoryError
        self.epoll = epoll_create1(0o2000000)  # EPOLL_CLOEXEC
        if self.epoll < 0:
            raise OSError(errno, "no descriptor for a pump")
        event.events = EPOLLIN
        event.data.ptr = cython.NULL
        if epoll_ctl(self.epoll, EPOLL_CTL_ADD, commands, cython.address(event)) < 0:
            raise OSError(errno, "no place for a pump")

    def __dealloc__(self) -> None:
        if self._scratch != cython.NULL and self.epoll >= 0:
            close_descriptor(self.epoll)
        free(self._scratch)

    @property
    def has_unfinished(self) -> bool:
        """Whether `turn` has work that the epoll descriptor does not show."""
        return self._unfinished != cython.NULL

    @property
    def has_stalled(self) -> bool:
        """Whether a direction makes no progress."""
        return self._stalled.first != cython.NULL

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def run(self) -> cython.void:
        """Relay until asked to stop or until waiting fails; then set `has_ended`."""
        while not self.is_stopping and self.turn(-1) >= 0:
            pass
        store(cython.address(self.has_ended), 1)

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def turn(self, milliseconds: cython.int) -> cython.int:
        """Run one turn, waiting at most `milliseconds` for events (-1: without limit).

        Returns a negative number if waiting has failed.
        """
        count: cython.int
        i: cython.int
        has_commands: cython.int = False
        if not self._journal.has_room():
            self._call()
            wait_for(self._commands, 0, 1 if milliseconds else 0)
            self._take_commands()
            self._send_back()
            return 0
        if self._unfinished != cython.NULL:
            milliseconds = 0
        elif self._leaving != cython.NULL or self._acks_due:
            milliseconds = 1 if milliseconds else 0
        elif self._stalled.first != cython.NULL and milliseconds < 0:
            milliseconds = _STUCK_MS
        count = epoll_wait(self.epoll, self._events, _EVENTS, milliseconds)
        if count < 0:
            has_commands = True  # recalled connections are given back even if waiting has failed
            if errno == EINTR:
                count = 0
        for i in range(count):
            if load(cython.address(self.has_recall)):  # the owner waits; epoll reports the other events again
                has_commands = True
                break
            if self._events[i].data.ptr == cython.NULL:
                has_commands = True
            else:
                self._handle(cython.cast(DirectionPointer, self._events[i].data.ptr), self._events[i].events)
        if self._unfinished != cython.NULL and not has_commands:
            self._continue()
        if has_commands:
            self._take_commands()
        if self._stalled.first != cython.NULL:
            self._give_back_slow(now_ns())
        self._send_back()
        return count

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _take_commands(self) -> cython.void:
        message: PumpMessage
        store(cython.address(self.has_recall), 0)
        while read_pipe(self._commands, cython.address(message), cython.sizeof(PumpMessage)) == cython.sizeof(
            PumpMessage
        ):
            if message.kind == BEGIN:
                self._begin(message.connection)
            elif message.kind == RECALL:
                if message.connection.is_here:
                    self._give_back(message.connection, _RECALLED)
                self._acks_due += 1
            else:
                self.is_stopping = True

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _begin(self, connection: PumpedPointer) -> cython.void:
        client: DirectionPointer = cython.address(connection.directions[0])
        server: DirectionPointer = cython.address(connection.directions[1])
        connection.is_here = True
        add(cython.address(self._held), client.rest_size + server.rest_size)
        if client.rest_size > _SMALL:
            self._stalled.add(client, now_ns())
        if server.rest_size > _SMALL:
            self._stalled.add(server, now_ns())
        if self._register(client, EPOLL_CTL_ADD) < 0 or self._register(server, EPOLL_CTL_ADD) < 0:
            self._give_back(connection, _CROWDED)
        else:
            self._note_unfinished(client)
            self._note_unfinished(server)

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _register(self, direction: DirectionPointer, operation: cython.int) -> cython.int:
        """Register the epoll events of a direction's source, which is also the target of the other direction."""
        event: epoll_event
        connection: PumpedPointer = cython.cast(PumpedPointer, direction.owner)
        event.events = 0
        if direction.is_read:
            event.events = EPOLLIN
        if connection.directions[1 - direction.place].is_waiting:
            event.events |= EPOLLOUT
        event.data.ptr = direction
        return epoll_ctl(self.epoll, operation, direction.source, cython.address(event))

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
            self._stalled.discard(direction)
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
        """Send leaving connections to the owner, which may free them afterwards.

        This happens only once no event of this turn is left that could concern them.
        """
        message: PumpMessage
        rest: PumpedPointer
        message.kind = RETURNED
        if self._leaving != cython.NULL:
            self._forget_left()
        while self._leaving != cython.NULL:
            message.connection = self._leaving
            rest = self._leaving.next_leaving
            if write_pipe(self._returns, cython.address(message), cython.sizeof(PumpMessage)) < 0:
                return
            self._leaving = rest
        message.kind = ACKNOWLEDGED
        message.connection = cython.NULL
        while self._acks_due:
            if write_pipe(self._returns, cython.address(message), cython.sizeof(PumpMessage)) < 0:
                return
            self._acks_due -= 1

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _handle(self, direction: DirectionPointer, events: cython.uint) -> cython.void:
        """Process the events of a direction's source."""
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
        """Receive once and forward the whole frames."""
        connection: PumpedPointer = cython.cast(PumpedPointer, direction.owner)
        scratch: BytePointer = self._scratch
        size: cython.Py_ssize_t = direction.rest_size
        end: cython.Py_ssize_t
        left: cython.Py_ssize_t
        got: cython.longlong
        sent: cython.longlong = 0
        reason: cython.int = 0
        began: cython.ulonglong
        kept: BytePointer
        cut: BytePointer = cython.NULL
        written: cython.Py_ssize_t
        if not self._journal.has_room():
            return  # the socket stays readable until there is room
        if size:
            memcpy(scratch, direction.rest, size)
        got = self._receive_into(direction, scratch + size, _SCRATCH - size)
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
        if connection.is_metered:
            cut = self._journal.place_for(size)
        end = cython.cast(FrameScanner, connection.scanner).scan(direction, scratch, size, cut, cython.address(reason))
        if end:
            add(cython.address(direction.taken), end)
            sent = self._send(direction, scratch, end)
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
            self._latencies.observe(now_ns() - began)
            if cut != cython.NULL:
                written = cython.cast(FrameScanner, connection.scanner).written
                if self._journal.write(direction, written, began):
                    self._call()
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
            self._stalled.discard(direction)
        if left > _SMALL and not direction.is_listed:
            self._stalled.add(direction, began)
        if reason:
            self._give_back(connection, reason)

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _receive_into(self, direction: DirectionPointer, into: BytePointer, size: cython.size_t) -> cython.longlong:
        """Receive from a direction's source as `recv` does."""
        is_unfinished: cython.int = False
        got: cython.longlong
        if direction.source_tls == cython.NULL:
            return receive_bytes(direction.source, into, size)
        got = receive_tls(
            direction.source_tls, into, size, cython.address(is_unfinished), cython.address(direction.tls_failure)
        )
        if is_unfinished:
            self._note_unfinished(direction)
        return got

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _send(self, direction: DirectionPointer, data: BytePointer, size: cython.size_t) -> cython.longlong:
        """Send to a direction's target as `send` does."""
        if direction.target_tls == cython.NULL:
            return send_bytes(direction.target, data, size)
        return send_tls(direction.target_tls, data, size)

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _note_unfinished(self, direction: DirectionPointer) -> cython.void:
        """Receive from a TLS source in the next turn too, because OpenSSL may hold bytes that epoll does not report."""
        if direction.source_tls != cython.NULL and not direction.is_unfinished:
            direction.is_unfinished = True
            direction.next_unfinished = self._unfinished
            self._unfinished = direction

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _continue(self) -> cython.void:
        """Receive from the unfinished directions, unless their target has to take earlier bytes first."""
        direction: DirectionPointer = self._unfinished
        following: DirectionPointer
        self._unfinished = cython.NULL
        while direction != cython.NULL:
            following = direction.next_unfinished
            direction.is_unfinished = False
            if cython.cast(PumpedPointer, direction.owner).is_here and direction.is_read:
                if self._journal.has_room():
                    self._receive(direction)
                else:
                    self._note_unfinished(direction)
            direction = following

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _forget_left(self) -> cython.void:
        """Remove the directions of leaving connections from the unfinished ones, before their owner may free them."""
        place: DirectionLink = cython.address(self._unfinished)
        while place[0] != cython.NULL:
            if cython.cast(PumpedPointer, place[0].owner).is_here:
                place = cython.address(place[0].next_unfinished)
            else:
                place[0].is_unfinished = False
                place[0] = place[0].next_unfinished

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _wait_for_room(self, direction: DirectionPointer, now: cython.ulonglong) -> cython.void:
        """Stop reading a direction until its target has taken the unsent bytes."""
        connection: PumpedPointer = cython.cast(PumpedPointer, direction.owner)
        put_int(cython.address(direction.is_read), False)
        direction.is_waiting = True
        self._stalled.discard(direction)
        self._stalled.add(direction, now)
        self._register(direction, EPOLL_CTL_MOD)
        self._register(cython.address(connection.directions[1 - direction.place]), EPOLL_CTL_MOD)

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _flush(self, direction: DirectionPointer) -> cython.void:
        """Send a direction's unsent bytes, and resume reading once all are sent."""
        connection: PumpedPointer = cython.cast(PumpedPointer, direction.owner)
        left: cython.Py_ssize_t = direction.unsent_end - direction.unsent_from
        sent: cython.longlong = self._send(direction, direction.unsent + direction.unsent_from, left)
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
        self._note_unfinished(direction)
        direction.is_waiting = False
        if direction.rest_size <= _SMALL:
            self._stalled.discard(direction)
        self._register(direction, EPOLL_CTL_MOD)
        self._register(cython.address(connection.directions[1 - direction.place]), EPOLL_CTL_MOD)

    # --- connections that make no progress

    @cython.nogil
    @cython.cfunc
    @cython.exceptval(check=False)
    def _give_back_slow(self, now: cython.ulonglong) -> cython.void:
        """Give back the connections with a peer that took nothing, or left a frame incomplete, for `stuck_after`."""
        direction: DirectionPointer = self._stalled.first
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
    def _call(self) -> cython.void:
        """Ask the owner to read the journal, once until it has read it."""
        message: PumpMessage
        if not load(cython.address(self.has_called)):
            message.connection = cython.NULL
            message.kind = MUCH_WRITTEN
            # Set before the message is sent: the owner may read it and clear the flag at once.
            store(cython.address(self.has_called), 1)
            if write_pipe(self._returns, cython.address(message), cython.sizeof(PumpMessage)) < 0:
                store(cython.address(self.has_called), 0)
