"""The upstream's place in the session of a pooled client."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import trio

from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import HEADER, HEARTBEAT, HEARTBEAT_FRAME, METHOD, Frame, encode_method
from amqproxy.amqp091.methods import (
    METHODS,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionUnblocked,
    Method,
    QueueDeclare,
)
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.configuration.pool_config import PoolConfig
from amqproxy.process.supervision import contained
from amqproxy.proxy.amqp091.pools.lane import Lane
from amqproxy.proxy.amqp091.pools.own_upstream import OwnUpstream
from amqproxy.proxy.amqp091.pools.pooled_channel import PooledChannel, begins_message, readdressed
from amqproxy.proxy.amqp091.pools.request_proof import Answer, Verdict
from amqproxy.proxy.amqp091.pools.shared_upstream import SharedUpstream
from amqproxy.proxy.amqp091.pools.sharing import PinReason, is_harmless_publish, pin_reason, with_queue
from amqproxy.proxy.upstreams.client_pools import Pinning
from amqproxy.proxy.upstreams.member import Member
from amqproxy.sockets.tls_socket import TlsSocket
from amqproxy.sockets.transport import Address, Transport, TransportBroken

MOST_UNREAD = 256 * 1024
"""Largest number of bytes that wait for a client, which would hold up nobody but itself with more."""

PIN_TIMEOUT = 15.0
"""Seconds for the connection of a pinned client's own."""

SETTLE_TIMEOUT = 1.0
"""Seconds in which both directions of a pinned client begin to use its own connection: a pump takes both or none."""


_BEHIND_CLOSE_OK = (ChannelOpen.index, ConnectionClose.index)
"""Methods before which the client is sent each close-ok that it has to get."""


class Proofs(Protocol):
    """Tries methods on the pool's scout."""

    def verdict(self, request: bytes) -> Verdict:
        """Return the verdict on a method, by its payload."""

    async def await_verdict(self, request: bytes) -> Verdict:
        """Wait while another client tries the same method; return the verdict."""

    def note_proof(self, request: bytes) -> None:
        """Note that the broker has answered a method on a shared connection."""

    async def prove(self, method: Method) -> Answer | None:
        """Send a method on the scout; return the broker's answer. Raises `TransportBroken` if there is no scout."""


class PooledTransport:
    """A `Transport` on which a client sees a broker, and uses channels of `upstream`, a connection to `member`.

    `client` is the state of the client's connection, which is open. `pinning` gives it a connection of its own, and
    `note_pin` is told why. `announces_blocking` is whether the client wants to know when the broker blocks it;
    `must_pin` is why it may not share, and `on_leave` is called when it does not any more.
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
        self.upstream = upstream
        self.member = member
        self.announces_blocking = announces_blocking
        self.pinned: PinReason | None = None
        self.is_culprit = False
        """Whether the broker has closed a shared connection for what the client has sent."""
        self.received = 0
        self._proofs = proofs
        self._config = config
        self._client = client
        self._pinning = pinning
        self._note_pin = note_pin
        self._must_pin = must_pin
        self._on_leave = on_leave
        self._has_ended = False
        self._lane = Lane()
        self._turn = trio.Lock()
        self._channels: dict[int, PooledChannel] = {}
        self._closed: list[PooledChannel] = []
        """Channels that the client has closed in the bytes being taken, and whose end it is not told yet."""
        self._own: OwnUpstream | None = None
        self._outbox: list[bytes] = []
        self._unread = 0
        self._lost = ""
        self._is_closed = False
        self._has_sent = self._heard_at = trio.current_time()
        self._is_taking = False
        self._changed = trio.Event()
        self._news = trio.Event()
        self._settled_relays = trio.Event()
        self._is_waiting = False
        self._listening = trio.CancelScope()
        client.readers[CLIENT].set_lenient(True)  # as the session's own, which leaves these errors to the broker
        upstream.attach(self)
        if upstream.shared.blocked_for is not None:
            self.tell_blocked(upstream.shared.blocked_for)

    @property
    def channels(self) -> dict[int, int]:
        """The numbers of the client's channels, and those on the shared connection."""
        return {number: each.upstream_number for number, each in self._channels.items()}

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

    def _tell(self, data: bytes) -> None:
        """Queue bytes for the client."""
        if self._unread > MOST_UNREAD:
            return  # it is lost
        self._outbox.append(data)
        self._unread += len(data)
        if self._unread > MOST_UNREAD:
            self.lose(f"the client has left {MOST_UNREAD} bytes unread")
        self._news.set()

    def _tell_besides(self, data: bytes) -> None:
        """Queue bytes for the client, before the next that its own connection receives."""
        self._tell(data)
        self._listening.cancel()

    def _answer(self, channel: int, method: Method) -> None:
        """Send a method to the client, unless it has closed the channel or the connection."""
        raw = encode_method(channel, method)
        if self._client.receive(SERVER, Frame(raw)):
            self._tell(raw)

    def _contained(self) -> AbstractContextManager[None]:
        """Return a context in which an error ends this client, and none of its neighbours."""
        return contained("pooled client failed", then=lambda failure: self.lose("internal error"))

    # --- what the shared upstream reports

    def pass_on(self, channel: PooledChannel, frame: Frame) -> None:
        with self._contained():
            counts = self._client.receive(SERVER, Frame(readdressed(frame.raw, channel.number, 0)))
            if counts or channel.is_closing:  # a content that was begun goes on until close-ok
                self._tell(readdressed(frame.raw, channel.number, self._client.frame_max))

    def end_channel(self, channel: PooledChannel, close: ChannelClose | None) -> None:
        with self._contained():
            if self._channels.get(channel.number) is channel:
                del self._channels[channel.number]
                if channel.is_closing:
                    self._answer(channel.number, ChannelCloseOk())
                elif close is not None:
                    self._answer(channel.number, close)
        self.note_progress()

    def note_proof(self, request: bytes) -> None:
        self._proofs.note_proof(request)

    def note_progress(self) -> None:
        self._changed.set()

    def tell_blocked(self, reason: str | None) -> None:
        """Tell the client that the broker blocks it for a reason, or no longer does."""
        if self.announces_blocking and self._own is None and not self._lost:
            with self._contained():
                self._answer(0, ConnectionUnblocked() if reason is None else ConnectionBlocked(reason))

    def end_by(self, close: ConnectionClose) -> None:
        """End the client's connection by the broker's close, of which it is the cause."""
        with self._contained():
            self._answer(0, close)
        self.lose(close.reply_text)

    def is_suspect(self, close: ConnectionClose) -> bool:
        """Whether the client may have caused the broker's close."""
        method = METHODS.get(close.failing_class_id << 16 | close.failing_method_id)
        if method is BasicPublish:
            return any(not each.is_settled for each in self._channels.values())
        return method is not None and self._asks(method.name)

    def _asks(self, name: str) -> bool:
        """Whether the client waits for an answer to a method."""
        return any(each.awaited[CLIENT].get(name) for each in self._client.channels.values())

    def lose(self, reason: str) -> None:
        """End the client's connection, since its upstream is lost."""
        self._lost = self._lost or reason
        self._news.set()
        self.note_progress()

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
                await self._pin(reason, self._without_closed(frames[place:]))
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
                named = with_queue(method, channel.last_queue)
                if named is not method:
                    frame = Frame(encode_method(frame.channel, named))
                return pin_reason(named) or await self._request(channel, frame)
        return None

    # --- channels

    async def _open(self, number: int) -> PinReason | None:
        if self._must_pin is not None:
            return self._must_pin
        if len(self._channels) >= self._config.channels_per_client or not self.upstream.shared.can_open:
            return PinReason.MANY_CHANNELS
        channel = PooledChannel(number, self)
        found = self.upstream.shared.take_channel(channel, self._lane)
        with trio.move_on_after(self._config.wait):
            while found is None and not self._lost:
                self.upstream.flush()
                await self.upstream.reserve_filled.wait()
                found = self.upstream.shared.take_channel(channel, self._lane)
        if found is None:
            return PinReason.MANY_CHANNELS
        channel.upstream_number = found
        self._channels[number] = channel
        self._answer(number, ChannelOpenOk())
        return None

    def _select(self, channel: PooledChannel, frame: Frame, *, no_wait: bool) -> None:
        """Turn on confirms: a fresh channel cannot refuse, so that the client need not wait."""
        raw = readdressed(frame.raw, channel.upstream_number, 0)
        self.upstream.shared.put(channel.upstream_number, raw, is_method=True)
        channel.is_confirming = True
        if not no_wait:
            channel.note_select()
            self._answer(channel.number, ConfirmSelectOk())

    def _close(self, channel: PooledChannel) -> None:
        """Close a channel as its client asks.

        The client's close-ok waits for the broker's, unless nothing that the client has sent can still fail.
        """
        channel.is_closing = True
        self.upstream.shared.close_channel(channel.upstream_number)
        if channel.is_settled:
            self.upstream.shared.detach(channel.upstream_number)
            self._closed.append(channel)

    def _end_closed(self) -> None:
        """Answer the client's channel.close, behind which RabbitMQ drops what has come with it in one piece."""
        for channel in self._closed:
            self.end_channel(channel, None)
        self._closed.clear()

    def _without_closed(self, frames: list[Frame]) -> list[Frame]:
        """Return the frames without those on channels that are closed before them."""
        closed = {each.number for each in self._closed}
        self._end_closed()
        found = []
        for frame in frames:
            if frame.kind == METHOD and frame.index == ChannelOpen.index:
                closed.discard(frame.channel)
            if frame.channel not in closed:
                found.append(frame)
        return found

    def _put(self, channel: PooledChannel, data: bytes, *, is_method: bool = False) -> None:
        self.upstream.shared.put(channel.upstream_number, data, is_method=is_method)

    # --- methods that may fail hard

    async def _request(self, channel: PooledChannel, frame: Frame) -> PinReason | None:
        """Send a method that may fail hard: on the shared connection if it has been proven, else on the scout."""
        method, request = frame.method, frame.payload
        last_queue = method.queue if isinstance(method, QueueDeclare) else channel.last_queue
        verdict = self._proofs.verdict(request)
        if verdict is Verdict.UNKNOWN:
            verdict = await self._proofs.await_verdict(request)
            if self._channels.get(channel.number) is not channel:
                return None  # its number may be another client's by now
        if verdict is Verdict.HARD:
            return PinReason.HARD_ERROR
        if verdict is Verdict.PROVEN:
            channel.last_queue = last_queue
            channel.note_request(request, is_answered=not getattr(method, "no_wait", False))
            self._put(channel, readdressed(frame.raw, channel.upstream_number, 0), is_method=True)
            return None
        if not await self._settle([channel]):
            return None
        if self._channels.get(channel.number) is not channel:
            return None  # what was sent before has failed
        answer = await self._proofs.prove(method)
        if answer is None:
            return PinReason.UNPROVEN
        if self._channels.get(channel.number) is not channel:
            return None
        if answer.connection_close is not None:
            self.end_by(answer.connection_close)
            return None
        if answer.channel_close is not None:
            self._drop(channel)
            self._answer(channel.number, answer.channel_close)
            return None
        channel.last_queue = last_queue
        if answer.reply is not None:
            self._answer(channel.number, answer.reply)
        return None

    def _drop(self, channel: PooledChannel) -> None:
        """Give up a channel of the shared connection."""
        self._channels.pop(channel.number, None)
        self.upstream.shared.close_channel(channel.upstream_number)
        self.upstream.shared.detach(channel.upstream_number)

    async def _settle(self, channels: Iterable[PooledChannel]) -> bool:
        """Wait until the broker has processed all that was sent on these channels; return whether it has.

        The client is lost if that takes too long.
        """
        waiting = [each for each in channels if not each.is_settled or each.is_closing]
        for each in waiting:
            if each.needs_flow and not each.is_closing:
                each.note_request(b"", is_answered=True)
                self._put(each, encode_method(each.upstream_number, ChannelFlow(True)), is_method=True)
        self.upstream.flush()
        with trio.move_on_after(self._config.barrier_timeout):
            while not self._lost and not all(
                (each.is_settled and not each.is_closing) or self._channels.get(each.number) is not each
                for each in waiting
            ):
                await self._wait()
            return not self._lost
        self.lose(f"the broker has not answered within {self._config.barrier_timeout:g} s")
        return False

    async def _wait(self) -> None:
        if self._changed.is_set():
            self._changed = trio.Event()
        await self._changed.wait()

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
            self._own = own
            self._news.set()
            await own.send_rest(b"".join(partial), rest)
            if own.is_transparent:  # the other direction settles when it has nothing left for the client
                with trio.move_on_after(SETTLE_TIMEOUT):
                    await self._settled_relays.wait()
        except BaseException:
            await transport.reset()
            raise

    def _leave(self) -> None:
        """Give up all channels of the shared connection; whole messages are still sent."""
        for channel in list(self._channels.values()):
            self._drop(channel)
        self.upstream.detach(self)
        self.upstream.flush()
        self.upstream.keep_place(self._lane)

    def _end_sharing(self) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._on_leave(self)

    @property
    def settled(self) -> Transport | None:
        """The connection of the client's own, once all bytes pass on it as they are."""
        return self._own.transport if self._own is not None and self._own.is_transparent else None

    @property
    def is_shared(self) -> bool:
        """Whether the client uses a shared connection."""
        return self._own is None

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
        return self.upstream.transport.ends() if self._own is None else self._own.transport.ends()

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


def _has_text(frame: Frame) -> bool:
    """Whether the method can be decoded."""
    try:
        return frame.method is not None
    except ProtocolError:
        return False
