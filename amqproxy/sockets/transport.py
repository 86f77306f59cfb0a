"""Byte transport to one peer, over a socket, with or without TLS.

The socket is read and written directly, and waited for only when it would block: that is what keeps a proxy close to a
TCP proxy. All errors of a broken connection are one, `TransportBroken`.
"""

from __future__ import annotations

import errno
import math
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
from amqproxy.sockets.strict_verification import strict_refusal
from amqproxy.sockets.tls_socket import CLOSED, TlsSocket

LEAST_READ = 16 * 1024
MOST_READ = 256 * 1024
"""Maximum size of one read: doubled while reads are full, halved while they are nearly empty."""

MOST_PIECES = 1024
"""Maximum number of pieces that the system accepts at once."""

TURN = 8
"""Number of consecutive reads without waiting, after which other tasks get their turn."""


END = -1
"""In place of an errno in `SocketTransport.take_back`: the peer has closed its half."""

_AT_ONCE = struct.pack("ii", 1, 0)
"""SO_LINGER of 0: closing the socket sends a reset."""


HUNG_UP = getattr(select, "POLLRDHUP", 0)
"""Event by which Linux reports a peer that has closed its half; other systems report only a broken connection
without reading.
"""

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
    def tls(self) -> TlsSocket | None:
        """The socket, if it is one over TLS."""

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
        """Close the local half; over TLS, bytes of the peer that are not read yet may be lost."""

    async def aclose(self) -> None:
        """Close both halves at once; tasks that wait on them get `TransportBroken`."""

    async def reset(self) -> None:
        """Like `aclose`, but unread data is lost, and a TCP peer receives a reset."""


class HasDescriptor(Protocol):
    """A socket of Python's or of trio's."""

    def fileno(self) -> int: ...


class SocketTransport:
    """A connected, non-blocking TCP or Unix socket, which may be a `TlsSocket`.

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

    @property
    def tls(self) -> TlsSocket | None:
        return self._socket if isinstance(self._socket, TlsSocket) else None

    @property
    def _is_over(self) -> bool:
        """Whether an end or error was received with earlier bytes; the system may then never report more to read."""
        return isinstance(self._socket, TlsSocket) and self._socket.is_over

    async def secure(self, timeout: float = math.inf) -> None:
        """Complete the TLS handshake, if there is one, within `timeout` seconds; close the socket if that fails.

        Raise `TransportBroken` then.
        """
        tls = self.tls
        if tls is None:
            return
        why = "closed by the peer"
        try:
            with trio.move_on_after(timeout) as scope:
                if await shake_hands(tls):
                    return
            if scope.cancelled_caught:
                why = "timeout"
        except TransportBroken as error:
            why = str(error)
        except BaseException:
            self._close()
            raise
        self._close()
        raise TransportBroken(why)

    def lend(self) -> int | None:
        """Lend the socket's descriptor, to receive and send with until `take_back`.

        Return `None` if that is impossible now: a send is in progress, data is still to be received here, or it is
        closed. Until then, it counts as listening, and no method that receives or sends may be called.
        """
        if self._lock is not None or self._left is not None or self._socket.fileno() < 0:
            return None
        if self._is_over:
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

        `error` is the errno of a failed read, or `END`. `is_held_up` if nothing is received until another peer has
        accepted the earlier data.
        """
        self.is_listening = not unread and not is_held_up
        self._was_drained = self.tls is None  # OpenSSL may hold bytes that the system no longer has
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
        if error == END:
            return b""
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
            self._was_drained = len(data) < self._size and not self._is_over
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
        return has_hung_up(self._socket)

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
        self._close()

    def _close(self) -> None:
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


async def shake_hands(sock: TlsSocket) -> bool:
    """Complete a TLS handshake; return false if the peer has closed before its end.

    Raise `TransportBroken` if it fails. Cancelled, it can be continued.
    """
    try:
        while True:
            try:
                sock.do_handshake()
            except ssl.SSLWantReadError:
                await trio.lowlevel.wait_readable(sock)
            except ssl.SSLWantWriteError:
                await trio.lowlevel.wait_writable(sock)
            else:
                return True
    except (*CLOSED, ssl.SSLSyscallError, ConnectionError):
        return False
    except (trio.ClosedResourceError, OSError, ValueError) as error:
        refusal = strict_refusal(error, sock, sock.context) or _reason(error)
        release_frames(error)
        with suppress(OSError):  # closing with unread bytes sends a reset, which would overtake OpenSSL's alert
            socket.socket.recv(sock, MOST_READ)
        raise TransportBroken(refusal) from None


def reset(sock: socket.socket) -> None:
    """Close a socket at once: unsent bytes are lost, and the peer gets a reset."""
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    sock.close()


def _ends(sock: socket.socket) -> tuple[Address, Address] | None:
    try:
        if sock.family not in (socket.AF_INET, socket.AF_INET6):
            return None
        own, peer = sock.getsockname(), sock.getpeername()
    except OSError:
        return None
    return (own[0], own[1]), (peer[0], peer[1])


def has_hung_up(sock: HasDescriptor) -> bool:
    """Whether the system knows that the peer of a socket has closed its half or is gone."""
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


def _reason(error: BaseException) -> str:
    if isinstance(error, (ConnectionResetError, BrokenPipeError)):
        return "reset by the peer"
    is_closed = isinstance(error, (trio.ClosedResourceError, ValueError)) or getattr(error, "errno", 0) == errno.EBADF
    if is_closed and not isinstance(error, ssl.SSLError):  # a refused certificate is a ValueError too
        return "closed here"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the peer's certificate is refused: {error.verify_message.rstrip('.')}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__
