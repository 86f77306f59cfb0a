"""The upstream's place in the session of a pooled client."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import trio

from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import HEADER, HEARTBEAT, HEARTBEAT_FRAME, METHOD, Frame, encode_method
from amqproxy.amqp091.methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConfirmSelect,
    ConnectionClose,
    ConnectionCloseOk,
    Method,
)
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.configuration.pool_config import PoolConfig
from amqproxy.proxy.amqp091.pools.client_place import ClientPlace, Proofs
from amqproxy.proxy.amqp091.pools.own_upstream import OwnUpstream
from amqproxy.proxy.amqp091.pools.pooled_channel import PooledChannel, begins_message
from amqproxy.proxy.amqp091.pools.shared_upstream import SharedUpstream
from amqproxy.proxy.amqp091.pools.sharing import PinReason, is_harmless_publish, pin_reason, with_queue
from amqproxy.proxy.upstreams.client_pools import Pinning
from amqproxy.proxy.upstreams.member import Member
from amqproxy.sockets.tls_socket import TlsSocket
from amqproxy.sockets.transport import Address, Transport, TransportBroken

PIN_TIMEOUT = 15.0
"""Seconds for the connection of a pinned client's own."""

SETTLE_TIMEOUT = 1.0
"""Seconds in which both directions of a pinned client begin to use its own connection: a pump takes both or none."""


_BEHIND_CLOSE_OK = (ChannelOpen.index, ConnectionClose.index)
"""Methods before which the client is sent each close-ok that it has to get."""


class PooledTransport(ClientPlace):
    """A `Transport` on which a client sees a broker, and uses channels of `upstream`, a connection to `member`.

    `pinning` gives the client a connection of its own, and `note_pin` is told why. `on_leave` is called when it does
    not share any more.
    """

    def __init__(
        self,
        upstream: SharedUpstream,
        member: Member,
        proofs: Proofs,
        config: PoolConfig,
        client: Connection,
        pinning: Pinning,
        note_pin: Callable[[PinReason], None],
        *,
        announces_blocking: bool,
        must_pin: PinReason | None = None,
        on_leave: Callable[[PooledTransport], None] = lambda transport: None,
    ) -> None:
        super().__init__(upstream, proofs, config, client, announces_blocking=announces_blocking, must_pin=must_pin)
        self.member = member
        self.pinned: PinReason | None = None
        self.received = 0
        self._pinning = pinning
        self._note_pin = note_pin
        self._on_leave = on_leave
        self._has_ended = False
        self._turn = trio.Lock()
        self._own: OwnUpstream | None = None
        self._is_closed = False
        self._has_sent = self._heard_at = trio.current_time()
        self._is_taking = False
        self._settled_relays = trio.Event()
        self._is_waiting = False
        self._listening = trio.CancelScope()

    # --- what the session receives

    async def receive(self) -> bytes:
        while True:
            if self._outbox:
                data = b"".join(self._outbox)
                self._outbox.clear()
                self._unread = 0
                self.received += len(data)
                self._has_sent = trio.current_time()
                return data
            if self._lost:
                raise TransportBroken(self._lost)
            if self._own is not None:
                if self._own.is_transparent and not self._has_ended:
                    self._end_sharing()
                    self._pinning.settle(str(self.pinned))
                    self._settled_relays.set()
                    self._let_go()
                with trio.CancelScope() as self._listening:
                    data = await self._own.receive()
                    self.received += len(data)
                    return data
                continue
            if self._is_closed:
                return b""
            interval = self._client.heartbeat / 2 or math.inf
            with trio.move_on_at(self._has_sent + interval) as silence:
                self._is_waiting = True
                self._news = trio.Event()
                await self._news.wait()
            self._is_waiting = False
            if silence.cancelled_caught and not self._outbox:
                self._watch_silence()
                self._outbox.append(HEARTBEAT_FRAME)

    def _watch_silence(self) -> None:
        """End a client that has sent nothing for twice its heartbeat, as RabbitMQ does."""
        patience = 2 * self._client.heartbeat
        if not self._is_taking and trio.current_time() - self._heard_at > patience:
            self.lose(f"the client has sent nothing for {patience} s")

    def _tell_besides(self, data: bytes) -> None:
        """Queue bytes for the client, before the next that its own connection receives."""
        self._tell(data)
        self._listening.cancel()

    # --- what the session sends

    async def send(self, data: bytes | memoryview) -> None:
        async with self._turn:  # another task of the session may send commands that a rule has held
            if self._lost:
                raise TransportBroken(self._lost)
            if self._own is not None:
                await self._own.send(data)
                return
            self._is_taking = True
            try:
                await self._take_all(bytes(data))
            except ProtocolError as error:  # the session has refused it before, unless a rule has made it
                raise TransportBroken(f"refused a frame of the client: {error}") from None
            finally:
                self._heard_at = trio.current_time()
                self._is_taking = False

    async def _take_all(self, data: bytes) -> None:
        reader = self._client.readers[CLIENT]
        frames = reader.feed(data)
        for place, frame in enumerate(frames):
            if self._closed and frame.kind == METHOD and frame.index in _BEHIND_CLOSE_OK:
                self._end_closed()
            # one by one: a frame that goes to a connection of the client's own must not have changed the state here
            try:
                reason = await self._take(frame) if self._client.receive(CLIENT, frame) else None
            except ProtocolError:
                reason = PinReason.UNPROVEN  # the broker answers it in its own words
            if reason is not None:
                # with the queue's name, which the answer has if that queue is gone
                await self._pin(reason, self._without_closed([self._named(frame), *frames[place + 1 :]]))
                return
        self._end_closed()
        if reader.error is not None:
            raise reader.error
        self.upstream.flush()
        while self._lane.size > self._config.share and not self._lost:
            await self._wait()

    async def _take(self, frame: Frame) -> PinReason | None:
        """Process a frame; return why the client has to be pinned before it, if it has."""
        if frame.channel == 0:
            return None if frame.kind == HEARTBEAT else await self._take_on_connection(frame.method)
        channel = self._channels.get(frame.channel)
        if frame.kind != METHOD:
            return None if channel is None else self._take_content(channel, frame)
        if begins_message(frame):
            if channel is None:
                return None  # the broker has closed the channel
            if not _has_text(frame) or not is_harmless_publish(frame.method):
                return PinReason.UNPROVEN
            channel.begin_message(frame)
            return None
        return await self._take_method(channel, frame)

    async def _take_on_connection(self, method: Method) -> PinReason | None:
        match method:
            case ConnectionClose():
                await self._settle(self._channels.values())
                self._is_closed = True
                self._leave()
                self._answer(0, ConnectionCloseOk())
            case ConnectionCloseOk():
                self._is_closed = True
                self._news.set()
            case _:
                return pin_reason(method)
        return None

    def _take_content(self, channel: PooledChannel, frame: Frame) -> PinReason | None:
        most = self.upstream.frame_max
        is_whole = frame.kind != HEADER or not most or frame.length() <= most  # only bodies can be divided
        if not channel.take_content(frame, self._config.buffer) or not is_whole:
            channel.partial.pop()  # the frame itself goes the new way with all that follow
            return PinReason.LARGE_MESSAGE if channel.body_left > self._config.buffer else PinReason.UNPROVEN
        if channel.is_complete:
            self._put(channel, channel.take_message(self.upstream.frame_max))
        return None

    async def _take_method(self, channel: PooledChannel | None, frame: Frame) -> PinReason | None:
        method: Method = frame.method
        if isinstance(method, ChannelOpen):
            return await self._open(frame.channel)
        if channel is None:  # the broker has closed the channel
            if isinstance(method, ChannelClose):
                self._answer(frame.channel, ChannelCloseOk())
            return None
        match method:
            case ChannelClose():
                self._close(channel)
            case ChannelCloseOk():
                pass
            case ConfirmSelect(no_wait=no_wait):
                self._select(channel, frame, no_wait=no_wait)
            case _:
                named = self._named(frame)
                return pin_reason(named.method) or await self._request(channel, named)
        return None

    def _named(self, frame: Frame) -> Frame:
        """Return a method with the name of the queue that was last declared on its channel, if it leaves that open."""
        channel = self._channels.get(frame.channel)
        if channel is None or not channel.last_queue or frame.kind != METHOD or not _has_text(frame):
            return frame
        method: Method = frame.method
        named = with_queue(method, channel.last_queue)
        return frame if named is method else Frame(encode_method(frame.channel, named))

    # --- pinning

    async def _pin(self, reason: PinReason, rest: list[Frame]) -> None:
        """Go on with an upstream connection of the client's own, which is sent `rest` next."""
        if not await self._settle(self._channels.values()):
            raise TransportBroken(self._lost)
        with trio.move_on_after(PIN_TIMEOUT) as patience:
            transport, answer = await self._pinning.dial(self.member)
        if patience.cancelled_caught:
            self.lose(f"the broker has not answered within {PIN_TIMEOUT:g} s")
            raise TransportBroken(self._lost)
        own = OwnUpstream(transport)
        try:
            channels = list(self._channels.values())
            partial = [b"".join(each.partial) for each in channels]
            left = [number for number, each in self._client.channels.items() if not each.takes_frames]
            own.let_leave(left, self._client.readers[CLIENT], self._tell_besides)
            if self.upstream.shared.blocked_for is not None:
                self.tell_blocked(None)  # the broker tells it anew where it publishes from now on
            self._leave()
            with trio.move_on_after(self._config.barrier_timeout) as patience:
                found = await own.take_over(channels, answer)
            if patience.cancelled_caught:
                self.lose(f"the broker has not opened the channels within {self._config.barrier_timeout:g} s")
                raise TransportBroken(self._lost)
            self.pinned = reason
            self._note_pin(reason)
            if found:
                self._tell(found)
            self._own, self.is_shared = own, False
            self._news.set()
            await own.send_rest(b"".join(partial), rest)
            if own.is_transparent:  # the other direction settles when it has nothing left for the client
                with trio.move_on_after(SETTLE_TIMEOUT):
                    await self._settled_relays.wait()
        except BaseException:
            await transport.reset()
            raise

    def _end_sharing(self) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._on_leave(self)

    @property
    def settled(self) -> Transport | None:
        """The connection of the client's own, once all bytes pass on it as they are."""
        return self._own.transport if self._own is not None and self._own.is_transparent else None

    # --- the rest of a transport

    def send_now(self, data: bytes | memoryview) -> int:
        return 0 if self.settled is None else self.settled.send_now(data)

    def send_pieces_now(self, pieces: Sequence[bytes | memoryview]) -> int:
        return 0 if self.settled is None else self.settled.send_pieces_now(pieces)

    async def send_some(self, pieces: Sequence[bytes | memoryview]) -> int:
        await self.send(pieces[0])
        return len(pieces[0])

    async def send_eof(self) -> None:
        if self._own is not None:
            await self._own.transport.send_eof()
            return
        self._is_closed = True
        self._leave()
        self._news.set()

    @property
    def tls(self) -> TlsSocket | None:
        return self.upstream.transport.tls if self._own is None else self._own.transport.tls

    @property
    def is_listening(self) -> bool:
        return self._is_waiting if self._own is None else self._own.transport.is_listening

    @property
    def is_sending(self) -> bool:
        return self._lane.size > 0 if self._own is None else self._own.transport.is_sending

    @property
    def progress(self) -> int:
        return self.upstream.transport.progress if self._own is None else self._own.transport.progress

    def has_hung_up(self) -> bool:
        return bool(self._lost) if self._own is None else self._own.transport.has_hung_up()

    def ends(self) -> tuple[Address, Address] | None:
        """Return the addresses of the client's own connection; the shared one's are those of its `SharedLeg` alone."""
        return None if self._own is None else self._own.transport.ends()

    async def aclose(self) -> None:
        self._end()
        if self._own is not None:
            await self._own.transport.aclose()

    async def reset(self) -> None:
        self._end()
        if self._own is not None:
            await self._own.transport.reset()

    def _end(self) -> None:
        if self._own is None:
            self._leave()
        self._end_sharing()
        self._is_closed = True
        self._news.set()
        self._settled_relays.set()
        self._let_go()

    def _let_go(self) -> None:
        """Drop the references to the session: short-lived clients come faster than cyclic garbage is collected."""
        for name in ("_pinning", "_note_pin", "_on_leave"):
            self.__dict__.pop(name, None)
        if self._own is not None:
            self._own.let_go()


def _has_text(frame: Frame) -> bool:
    """Whether the method can be decoded."""
    try:
        return frame.method is not None
    except ProtocolError:
        return False
