"""Protocol state of an upstream connection that many clients share: channels, their users, and fair turns to send.

It does no input or output. A channel is used once: it is opened ahead of its use, into a reserve; its number is given
again only after both close-oks. When the broker closes a channel, its user is detached, and what the user had still to
send there is dropped, in the same step in which close-ok is queued.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import METHOD, Frame, encode_method
from amqproxy.amqp091.methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionUnblocked,
    ConnectionUpdateSecret,
    Method,
)
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.proxy.amqp091.pools.lane import Lane, Piece
from amqproxy.taps.amqp091.chunk import Amqp091Chunk
from amqproxy.taps.shared_legs import SharedLeg, SharedLegs

QUANTUM = 16 * 1024
"""Number of bytes that a client may send before it is the turn of others."""

LEAST_RESERVE = 8
MOST_RESERVE = 512
"""Bounds of the number of channels that are opened ahead of their use."""

NO_LIMIT = 65_535
"""Largest channel number (section 4.2.3)."""


class ChannelUser(Protocol):
    """Whoever uses one channel of a shared connection."""

    def take(self, frame: Frame) -> None:
        """Take a frame that the broker has sent on the channel."""

    def take_close(self, close: ChannelClose) -> None:
        """Note that the broker has closed the channel, which is no longer the user's."""

    def take_close_ok(self) -> None:
        """Note that the broker has answered the user's close."""


class SharedConnection:
    """An open connection to a broker.

    `blocked_for` is the reason for which the broker blocks it, `None` if it does not; `closed` is the broker's
    connection.close, once it has sent one. All frames are shown on `leg`.
    """

    def __init__(self, connection: Connection, leg: SharedLeg | None = None) -> None:
        self.connection = connection
        self.leg = SharedLeg(SharedLegs(), "") if leg is None else leg
        self.blocked_for: str | None = None
        self.closed: ConnectionClose | None = None
        self._users: dict[int, ChannelUser] = {}
        self._lanes: dict[int, Lane] = {}
        self._reserve: deque[int] = deque()
        self._opening = 0
        self._free: deque[int] = deque()
        self._next = 1
        self._reserve_size = LEAST_RESERVE
        self._urgent: list[bytes] = []
        self._ready: deque[Lane] = deque()
        self._is_ready: set[Lane] = set()

    # --- channels

    @property
    def channels(self) -> int:
        """The number of channels that clients use."""
        return len(self._users)

    @property
    def has_reserve(self) -> bool:
        return bool(self._reserve)

    @property
    def can_open(self) -> bool:
        """Whether a channel is open for the next user, or will be."""
        return bool(self._reserve or self._opening or self._free) or self._next <= self._channel_max

    @property
    def _channel_max(self) -> int:
        return self.connection.channel_max or NO_LIMIT

    def fill_reserve(self) -> None:
        """Open channels ahead of their use."""
        while len(self._reserve) + self._opening < self._reserve_size:
            if self._free:
                number = self._free.popleft()
            elif self._next <= self._channel_max:
                number, self._next = self._next, self._next + 1
            else:
                return
            self._opening += 1
            self._send_now(number, ChannelOpen())

    def take_channel(self, user: ChannelUser, lane: Lane) -> int | None:
        """Give a fresh channel of the reserve to a user, who sends by this lane; `None` if none is open now."""
        if not self._reserve:
            self._reserve_size = min(2 * self._reserve_size, MOST_RESERVE)
            self.fill_reserve()
            return None
        number = self._reserve.popleft()
        self._users[number], self._lanes[number] = user, lane
        self.fill_reserve()
        return number

    def close_channel(self, number: int, user: ChannelUser) -> None:
        """Close a user's channel, behind all that it has queued there; nothing if it is no longer the user's."""
        if self._users.get(number) is user:
            self.put(number, encode_method(number, ChannelClose(200, "closed by the client", 0, 0)), is_method=True)

    def detach(self, number: int, user: ChannelUser, *, is_settled: bool) -> None:
        """Detach a user, which is not told any more what arrives on its channel.

        `is_settled` is whether the broker has processed all that the user has sent.
        """
        if self._users.get(number) is user:
            self._users[number] = _NOBODY if is_settled else _DEPARTED

    @property
    def is_left_unsettled(self) -> bool:
        """Whether users have left something that the broker has not processed, as far as is known."""
        return _DEPARTED in self._users.values()

    # --- what is sent

    def put(self, number: int, data: bytes, *, is_method: bool = False) -> None:
        """Queue whole messages, or one method, on a user's channel."""
        lane = self._lanes.get(number)
        if lane is None:
            return
        lane.put(Piece(number, data, is_method))
        if lane not in self._is_ready:
            self._is_ready.add(lane)
            self._ready.append(lane)

    def send_urgently(self, data: bytes) -> None:
        """Queue bytes before those of all users."""
        self._urgent.append(data)

    def renew(self, secret: bytes) -> None:
        """Send the broker a new secret."""
        self._send_now(0, ConnectionUpdateSecret(secret, "renewed by the proxy"))

    @property
    def has_output(self) -> bool:
        return bool(self._urgent or self._ready)

    def take_output(self, most: int) -> bytes:
        """Take bytes to be sent: those of all users in fair turns, of about `most` bytes in all."""
        output, self._urgent = self._urgent, []
        size = 0
        while self._ready and size < most:
            lane = self._ready.popleft()
            lane.allowance += QUANTUM
            while lane.pieces and len(lane.pieces[0].data) <= lane.allowance:
                piece = lane.take()
                lane.allowance -= len(piece.data)
                size += len(piece.data)
                if not piece.is_method or self._accepts(piece):
                    output.append(piece.data)
            if lane.pieces:
                self._ready.append(lane)
            else:
                lane.allowance = 0
                self._is_ready.discard(lane)
        taken = output[0] if len(output) == 1 else b"".join(output)
        if taken and self.leg.is_shown:
            self.leg.show(CLIENT, Amqp091Chunk(taken, 0))
        return taken

    def _accepts(self, piece: Piece) -> bool:
        """Apply a user's method; return whether it may be sent: a second close would cost all users the connection."""
        try:
            return self.connection.receive(CLIENT, Frame(piece.data))
        except ProtocolError:
            return False

    def _send_now(self, channel: int, method: Method) -> None:
        self._urgent.append(self.connection.send(CLIENT, channel, method))

    # --- what is received

    def feed(self, data: bytes) -> None:
        """Process the broker's bytes; raise `ProtocolError` for what it may not send."""
        reader = self.connection.readers[SERVER]
        frames = reader.feed(data)
        self.leg.show(SERVER, frames)
        for frame in frames:
            if not self.connection.receive(SERVER, frame):
                continue
            if frame.channel:
                self._take_on_channel(frame)
            elif frame.kind == METHOD:
                self.take_on_connection(frame.method)
        if reader.error is not None:
            raise reader.error

    def take_on_connection(self, method: Method) -> None:
        """Process a method on channel 0."""
        match method:
            case ConnectionBlocked(reason=reason):
                self.blocked_for = reason
            case ConnectionUnblocked():
                self.blocked_for = None
            case ConnectionClose():
                self.closed = method
                self._send_now(0, ConnectionCloseOk())
            case _:
                pass

    def _take_on_channel(self, frame: Frame) -> None:
        number = frame.channel
        method = frame.method if frame.kind == METHOD else None
        match method:
            case ChannelOpenOk():
                self._opening -= 1
                self._reserve.append(number)
            case ChannelClose():
                user = self._let_go(number)
                self._send_now(number, ChannelCloseOk())
                self._free_if_closed(number)
                if user is not None:
                    user.take_close(method)
                elif number in self._reserve:
                    self._reserve.remove(number)
            case ChannelCloseOk():
                user = self._let_go(number)
                self._free_if_closed(number)
                if user is not None:
                    user.take_close_ok()
            case _:
                user = self._users.get(number)
                if user is not None:
                    user.take(frame)

    def _let_go(self, number: int) -> ChannelUser | None:
        """Detach the user of a channel, and drop what it has queued there."""
        lane = self._lanes.pop(number, None)
        if lane is not None:
            lane.drop(number)
        return self._users.pop(number, None)

    def _free_if_closed(self, number: int) -> None:
        if number not in self.connection.channels:
            self._free.append(number)
            self.fill_reserve()


class _Nobody:
    """In place of a user that has left its channel."""

    def take(self, frame: Frame) -> None:
        """Drop the frame."""

    def take_close(self, close: ChannelClose) -> None:
        """Ignore it."""

    def take_close_ok(self) -> None:
        """Ignore it."""


_NOBODY = _Nobody()
_DEPARTED = _Nobody()
"""In place of a user that has left before the broker has processed all that it had sent."""
