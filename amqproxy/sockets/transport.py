"""Byte transport to one peer, over a plain socket or a trio stream (TLS).

A plain socket is read and written directly, and waited for only when it would block: that is what keeps a proxy close
to a TCP proxy. All errors of a broken connection are one, `TransportBroken`.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import ssl
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

import trio

from amqproxy.process.exception_frames import release_frames
from amqproxy.sockets.certificate import distinguished_name
from amqproxy.sockets.strict_verification import strict_refusal
from amqproxy.sockets.tls import asked_name, has_greeted, make_freeable

LEAST_READ = 16 * 1024
MOST_READ = 256 * 1024
"""Maximum size of one read: doubled while reads are full, halved while they are nearly empty."""

MOST_PIECES = 1024
"""Maximum number of pieces that the system accepts at once."""

MOST_AT_ONCE = 64 * 1024
"""Maximum bytes of pieces that are sent over TLS together."""

TURN = 8
"""Number of consecutive reads without waiting, after which other tasks get their turn."""


_BYTES_ACKED, _BYTES_ACKED_AT = struct.Struct("=Q"), 120
"""Field of Linux's `struct tcp_info`: the number of bytes that the peer's system has acknowledged."""

CLOSED = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""Exceptions for a peer that closed without close_notify, as many do: the second up to Python 3.11.2."""

_AT_ONCE = struct.pack("ii", 1, 0)
"""SO_LINGER of 0: closing the socket sends a reset."""


HUNG_UP = getattr(select, "POLLRDHUP", 0)
"""Event by which Linux reports a peer that has closed its half; other systems report only a broken connection
without reading.
"""

GONE = (trio.BrokenResourceError, trio.ClosedResourceError, ssl.SSLError, OSError)
"""Exceptions of a trio stream whose peer is gone, or that another task has closed."""


Address = tuple[str, int]
"""A host and a port."""


class TransportBroken(Exception):
    """The connection is broken; the text gives the reason."""


class Interrupted(Exception):
    """Raised in `SocketTransport.receive` to end its waiting."""


class Transport(Protocol):
    """A connection to a peer. One task receives, any may send in turn.

    `received` counts the received bytes; `is_listening` is whether a task is waiting for more. `is_sending` is whether
    a send waits for the peer, and `progress` a number that grows while the peer accepts some of it.
    """

    @property
    def received(self) -> int: ...

    @property
    def is_listening(self) -> bool: ...

    @property
    def is_sending(self) -> bool: ...

    @property
    def progress(self) -> int: ...

    async def receive(self) -> bytes:
        """Return the next bytes, b"" once the peer has closed its half; raise `TransportBroken` if it is gone."""

    async def send(self, data: bytes | memoryview) -> None:
        """Send all of `data`; raise `TransportBroken` if the peer is gone.

        If it is cancelled, data whose sending had not begun is not sent; a started rest is either sent before the next
        data, or the next send raises `TransportBroken`: the data of two calls is never interleaved.
        """

    def send_now(self, data: bytes | memoryview) -> int:
        """Send as much of `data` as possible without waiting; return the number of bytes.

        Return 0 if nothing can be sent now, or only `send` can tell.

        Raise `TransportBroken` if the peer is gone.
        """

    def send_pieces_now(self, pieces: Sequence[bytes | memoryview]) -> int:
        """Like `send_now`, for consecutive pieces, without joining them."""

    async def send_some(self, pieces: Sequence[bytes | memoryview]) -> int:
        """Send the beginning of the pieces, once the peer accepts any; return the number of bytes.

        Raise `TransportBroken` if the peer is gone. No other task may send meanwhile.
        """

    def has_hung_up(self) -> bool:
        """Whether the system knows that the peer has closed its half or is gone, even if data is still unread."""

    def ends(self) -> tuple[Address, Address] | None:
        """Return the local address and the peer's; `None` if it has none, or is closed."""

    async def send_eof(self) -> None:
        """Close the local half."""

    async def aclose(self) -> None:
        """Close both halves at once; tasks that wait on them get `TransportBroken`."""

    async def reset(self) -> None:
        """Like `aclose`, but unread data is lost, and a TCP peer receives a reset."""


class SocketTransport:
    """A connected, non-blocking TCP or Unix socket.

    `most_read` and `turn` replace MOST_READ and TURN, where processing a byte costs more than forwarding it.

    Another component may receive and send in its place for a while: see `lend`.
    """

    __slots__ = (
        "_is_interrupted",
        "_left",
        "_lock",
        "_most_read",
        "_size",
        "_socket",
        "_turn",
        "_turns",
        "_unsent",
        "_was_drained",
        "is_listening",
        "progress",
        "received",
    )

    def __init__(self, sock: socket.socket, *, most_read: int = MOST_READ, turn: int = TURN) -> None:
        self.received = 0
        self.progress = 0
        self.is_listening = False
        self._socket = sock
        self._most_read = most_read
        self._turn = turn
        self._size = LEAST_READ
        self._turns = 0
        self._was_drained = True
        self._lock: trio.Lock | None = None
        self._unsent: bytes | memoryview = b""
        self._left: tuple[bytes, int] | None = None
        self._is_interrupted = False

    @property
    def is_sending(self) -> bool:
        return self._lock is not None and self._lock.locked()

    @property
    def socket(self) -> socket.socket:
        """The socket itself, for another transport that replaces this one."""
        return self._socket

    def lend(self) -> int | None:
        """Lend the socket's descriptor, to receive and send with until `take_back`.

        Return `None` if that is impossible now: a send is in progress, data is still to be received here, or it is
        closed. Until then, it counts as listening, and no method that receives or sends may be called.
        """
        if self._lock is not None or self._left is not None or self._socket.fileno() < 0:
            return None
        self.is_listening = True
        return self._socket.fileno()

    def interrupt(self) -> None:
        """Make the task that waits in `receive`, if it `is_listening`, raise `Interrupted`; not while a send waits.

        This needs no cancel scope around each `receive`, which would cost microseconds.
        """
        if self.is_listening:
            self._is_interrupted = True
            trio.lowlevel.notify_closing(self._socket)

    def take_back(self, unread: bytes, unsent: bytes, error: int = 0, *, is_held_up: bool = False) -> None:
        """Take the socket back, with the received data that was not used, and the data that is still to be sent.

        `error` is the errno of a failed read. `is_held_up` if nothing is received until another peer has accepted the
        earlier data.
        """
        self.is_listening = not unread and not is_held_up
        self._was_drained = True
        if unread or error:
            self._left = unread, error
        if unsent:
            self._unsent = unsent
            self._lock = trio.Lock()

    def _take_left(self) -> bytes:
        assert self._left is not None
        unread, error = self._left
        if unread:
            self._left = (b"", error) if error else None
            return unread
        raise TransportBroken(_reason(OSError(error, os.strerror(error))))

    async def receive(self) -> bytes:
        if self._left is not None:
            return self._take_left()
        while True:
            if self._was_drained:
                self._turns = 0
                self.is_listening = True
                try:
                    await trio.lowlevel.wait_readable(self._socket)
                except (trio.ClosedResourceError, OSError, ValueError) as error:
                    if not self._is_interrupted or self._socket.fileno() < 0:
                        raise TransportBroken(_reason(error)) from None
                finally:
                    was_interrupted, self._is_interrupted = self._is_interrupted, False
                if was_interrupted:
                    raise Interrupted
                self.is_listening = False
            else:
                self.is_listening = False  # it may have been set for a lending that did not happen
                if self._turns >= self._turn:
                    self._turns = 0
                    await trio.lowlevel.checkpoint()
            try:
                data = self._socket.recv(self._size)
            except BlockingIOError:
                self._was_drained = True
                continue
            except OSError as error:
                raise TransportBroken(_reason(error)) from None
            self._turns += 1
            self.received += len(data)
            self._was_drained = len(data) < self._size
            if not self._was_drained:
                self._size = min(2 * self._size, self._most_read)
            elif len(data) * 4 < self._size > LEAST_READ:
                self._size //= 2
            return data

    def read_less(self) -> None:
        """Receive `LEAST_READ` bytes at a time, until `read_more`."""
        self._size = self._most_read = LEAST_READ

    def read_more(self) -> None:
        """Receive twice as much at a time as before, up to `MOST_READ`."""
        self._most_read = max(self._most_read, min(2 * self._most_read, MOST_READ))

    async def send(self, data: bytes | memoryview) -> None:
        if self._lock is None:  # the usual case: no task is waiting to send, and the socket takes it all
            sent = self.send_now(data)
            if sent == len(data):
                return
            self._lock = trio.Lock()
            self._lock.acquire_nowait()
            self._unsent = memoryview(data)[sent:]
            await self._flush(self._lock)
            return
        lock = self._lock
        await lock.acquire()
        self._unsent = bytes(self._unsent) + data if self._unsent else data
        await self._flush(lock)

    def send_now(self, data: bytes | memoryview) -> int:
        if self._lock is not None:
            return 0
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise TransportBroken(_reason(error)) from None

    async def send_some(self, pieces: Sequence[bytes | memoryview]) -> int:
        while not (sent := self.send_pieces_now(pieces)):
            try:
                await trio.lowlevel.wait_writable(self._socket)
            except (trio.ClosedResourceError, OSError, ValueError) as error:
                raise TransportBroken(_reason(error)) from None
        return sent

    def send_pieces_now(self, pieces: Sequence[bytes | memoryview]) -> int:
        if self._lock is not None:
            return 0
        try:
            return self._socket.sendmsg(pieces[:MOST_PIECES])
        except BlockingIOError:
            return 0
        except OSError as error:
            raise TransportBroken(_reason(error)) from None

    async def _flush(self, lock: trio.Lock) -> None:
        """Send the rest while holding the lock; drop the lock if no other task wants it."""
        try:
            while self._unsent:
                try:
                    sent = self._socket.send(self._unsent)
                except BlockingIOError:
                    await trio.lowlevel.wait_writable(self._socket)
                    continue
                self._unsent = memoryview(self._unsent)[sent:]
                self.progress += sent
            self._unsent = b""
            if not lock.statistics().tasks_waiting:
                self._lock = None
        except (trio.ClosedResourceError, OSError, ValueError) as error:
            self._unsent = b""
            raise TransportBroken(_reason(error)) from None
        finally:
            lock.release()

    def has_hung_up(self) -> bool:
        return _has_hung_up(self._socket)

    def ends(self) -> tuple[Address, Address] | None:
        return _ends(self._socket)

    async def send_eof(self) -> None:
        if self._lock is not None:
            await self.send(b"")  # wait for the send in progress
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            if error.errno != errno.ENOTCONN:
                raise TransportBroken(_reason(error)) from None

    async def aclose(self) -> None:
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()
            self._was_drained = False  # reading fails at once, whereas waiting on -1 would confuse trio

    async def reset(self) -> None:
        self.reset_now()

    def reset_now(self) -> None:
        """As `reset`: whoever sends or receives fails at once."""
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            reset(self._socket)
            self._was_drained = False  # as in `aclose`


def reset(sock: socket.socket) -> None:
    """Close a socket at once: unsent bytes are lost, and the peer gets a reset."""
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    sock.close()


class StreamTransport:
    """Any trio stream, usually TLS. TLS cannot close one half: `send_eof` closes both."""

    __slots__ = ("_is_torn", "_lock", "_stream", "is_listening", "received")

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.received = 0
        self.is_listening = False
        self._stream = stream
        self._lock = trio.Lock()
        self._is_torn = False

    @property
    def is_sending(self) -> bool:
        return self._lock.locked()

    @property
    def progress(self) -> int:
        """Number of bytes acknowledged by the peer's system, since TLS does not report its progress."""
        below = self._below
        if isinstance(below, trio.SocketStream) and below.socket.family in (socket.AF_INET, socket.AF_INET6):
            with suppress(OSError):
                found = below.socket.getsockopt(
                    socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_ACKED_AT + _BYTES_ACKED.size
                )
                return int(_BYTES_ACKED.unpack_from(found, _BYTES_ACKED_AT)[0])
        return 0

    @property
    def _below(self) -> trio.abc.Stream:
        """The stream below TLS, or the stream itself."""
        return self._stream.transport_stream if isinstance(self._stream, trio.SSLStream) else self._stream

    async def handshake(self) -> bool:
        """Finish the TLS handshake, if it is TLS; return `False` if the peer has closed; raise `TransportBroken` on
        failure.
        """
        if isinstance(self._stream, trio.SSLStream):
            try:
                await self._stream.do_handshake()
            except GONE as error:
                if isinstance(error.__cause__, (*CLOSED, ssl.SSLSyscallError, ConnectionError)):
                    return False
                connection = self._stream._ssl_object
                refusal = strict_refusal(error.__cause__ or error, connection, connection.context)
                if refusal:
                    release_frames(error)
                    raise TransportBroken(refusal) from None
                raise _broken(error) from None
        return True

    @property
    def tls_subject(self) -> str:
        """Subject of the peer's certificate, as RFC 4514 writes it; "" without one, or before the handshake."""
        if not isinstance(self._stream, trio.SSLStream):
            return ""
        try:
            return distinguished_name(self._stream.getpeercert() or {}) or ""
        except trio.NeedHandshakeError:
            return ""

    @property
    def tls_server_name(self) -> str:
        """Server name that the peer requested, once a `server_context` has received it."""
        return asked_name(self._stream) if isinstance(self._stream, trio.SSLStream) else ""

    @property
    def has_tls_greeting(self) -> bool:
        """Whether the peer has begun a TLS handshake with a `server_context`."""
        return isinstance(self._stream, trio.SSLStream) and has_greeted(self._stream)

    async def receive(self) -> bytes:
        self.is_listening = True
        try:
            data = bytes(await self._stream.receive_some(MOST_READ))
        except GONE as error:
            if isinstance(error.__cause__, CLOSED):
                return b""
            raise _broken(error) from None
        self.is_listening = False
        self.received += len(data)
        return data

    async def send(self, data: bytes | memoryview) -> None:
        async with self._lock:
            if self._is_torn:
                raise TransportBroken("a cancelled send left incomplete data")
            self._is_torn = True
            try:
                await self._stream.send_all(data)
            except GONE as error:
                raise _broken(error) from None
            self._is_torn = False

    def send_now(self, data: bytes | memoryview) -> int:
        return 0

    def send_pieces_now(self, pieces: Sequence[bytes | memoryview]) -> int:
        return 0

    async def send_some(self, pieces: Sequence[bytes | memoryview]) -> int:
        some = bytearray()
        for piece in pieces:
            some += piece[: MOST_AT_ONCE - len(some)]
            if len(some) == MOST_AT_ONCE:
                break
        await self.send(bytes(some))
        return len(some)

    def has_hung_up(self) -> bool:
        below = self._stream.transport_stream if isinstance(self._stream, trio.SSLStream) else self._stream
        return isinstance(below, trio.SocketStream) and _has_hung_up(below.socket)

    def ends(self) -> tuple[Address, Address] | None:
        below = self._below
        return _ends(below.socket) if isinstance(below, trio.SocketStream) else None

    async def send_eof(self) -> None:
        async with self._lock:
            try:
                await self._stream.aclose()
            except GONE as error:
                raise _broken(error) from None

    async def aclose(self) -> None:
        with suppress(*GONE):
            await trio.aclose_forcefully(self._stream)
        if isinstance(self._stream, trio.SSLStream):
            make_freeable(self._stream)

    async def reset(self) -> None:
        below = self._below
        if isinstance(below, trio.SocketStream) and below.socket.fileno() >= 0:
            with suppress(OSError):
                below.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        await self.aclose()


def _ends(sock: socket.socket | trio.socket.SocketType) -> tuple[Address, Address] | None:
    try:
        if sock.family not in (socket.AF_INET, socket.AF_INET6):
            return None
        own, peer = sock.getsockname(), sock.getpeername()
    except OSError:
        return None
    return (own[0], own[1]), (peer[0], peer[1])


def _has_hung_up(sock: socket.socket | trio.socket.SocketType) -> bool:
    if sock.fileno() < 0:
        return True
    poll = select.poll()
    poll.register(sock.fileno(), HUNG_UP)
    return bool(poll.poll(0))


def plain_socket(stream: trio.SocketStream) -> socket.socket:
    """Return the socket of a trio stream, which must not be used any more."""
    sock = socket.socket(fileno=stream.socket.detach())
    sock.setblocking(False)
    return sock


def _broken(error: BaseException) -> TransportBroken:
    """Convert an exception of a trio stream to the one error of all transports."""
    cause = error.__cause__ or error
    release_frames(error)
    return TransportBroken(_reason(cause))


def _reason(error: BaseException) -> str:
    if isinstance(error, (ConnectionResetError, BrokenPipeError)):
        return "reset by the peer"
    is_closed = isinstance(error, (trio.ClosedResourceError, ValueError)) or getattr(error, "errno", 0) == errno.EBADF
    if is_closed and not isinstance(error, ssl.SSLError):  # a refused certificate is a ValueError too
        return "closed here"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__
