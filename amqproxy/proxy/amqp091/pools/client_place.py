"""A client's place on a shared connection: its channels there, and what waits for the client."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Protocol

import trio

from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.frame import METHOD, Frame, encode_method
from amqproxy.amqp091.methods import (
    METHODS,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionUnblocked,
    Method,
    QueueDeclare,
)
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.configuration.pool_config import PoolConfig
from amqproxy.process.supervision import contained
from amqproxy.proxy.amqp091.pools.lane import Lane
from amqproxy.proxy.amqp091.pools.pooled_channel import PooledChannel, readdressed
from amqproxy.proxy.amqp091.pools.request_proof import Answer, Verdict
from amqproxy.proxy.amqp091.pools.shared_upstream import SharedUpstream
from amqproxy.proxy.amqp091.pools.sharing import PinReason

MOST_UNREAD = 256 * 1024
"""Largest number of bytes that wait for a client, which would hold up nobody but itself with more."""


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


class ClientPlace:
    """The place on `upstream` of a client whose connection, in the state `client`, is open.

    `announces_blocking` is whether the client wants to know when the broker blocks it; `must_pin` is why it may not
    share. The base of `PooledTransport`, which takes what the client sends.
    """

    def __init__(
        self,
        upstream: SharedUpstream,
        proofs: Proofs,
        config: PoolConfig,
        client: Connection,
        *,
        announces_blocking: bool,
        must_pin: PinReason | None,
    ) -> None:
        self.upstream = upstream
        self.announces_blocking = announces_blocking
        self.is_culprit = False
        """Whether the broker has closed a shared connection for what the client has sent."""
        self.is_shared = True
        """Whether the client uses the shared connection."""
        self._proofs = proofs
        self._config = config
        self._client = client
        self._must_pin = must_pin
        self._lane = Lane()
        self._channels: dict[int, PooledChannel] = {}
        self._closed: list[int] = []
        """Channels that the client has closed in the bytes being taken, and whose end it is not told yet.

        They are no longer its own: their numbers on the shared connection may be other clients' at any time.
        """
        self._outbox: list[bytes] = []
        self._unread = 0
        self._lost = ""
        self._changed = trio.Event()
        self._news = trio.Event()
        client.readers[CLIENT].set_lenient(True)  # as the session's own, which leaves these errors to the broker
        upstream.attach(self)
        if upstream.shared.blocked_for is not None:
            self.tell_blocked(upstream.shared.blocked_for)

    @property
    def channels(self) -> dict[int, int]:
        """The numbers of the client's channels, and those on the shared connection."""
        return {number: each.upstream_number for number, each in self._channels.items()}

    # --- what the client is told

    def _tell(self, data: bytes) -> None:
        """Queue bytes for the client."""
        if self._unread > MOST_UNREAD:
            return  # it is lost
        self._outbox.append(data)
        self._unread += len(data)
        if self._unread > MOST_UNREAD:
            self.lose(f"the client has left {MOST_UNREAD} bytes unread")
        self._news.set()

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
            if counts or channel.is_closing:  # a content that was begun is completed until close-ok
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
        if self.announces_blocking and self.is_shared and not self._lost:
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
        if channel.is_settled:
            self._drop(channel)
            self._closed.append(channel.number)
        else:
            self.upstream.shared.close_channel(channel.upstream_number, channel)

    def _end_closed(self) -> None:
        """Answer the client's channel.close, behind which RabbitMQ drops what has come with it in one piece."""
        closed, self._closed = self._closed, []
        with self._contained():
            for number in closed:
                self._answer(number, ChannelCloseOk())

    def _without_closed(self, frames: list[Frame]) -> list[Frame]:
        """Return the frames without those on channels that are closed before them."""
        closed = set(self._closed)
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
        del self._channels[channel.number]
        self.upstream.shared.close_channel(channel.upstream_number, channel)
        self.upstream.shared.detach(channel.upstream_number, channel, is_settled=channel.is_settled)

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

    def _leave(self) -> None:
        """Give up all channels of the shared connection; whole messages are still sent."""
        for channel in list(self._channels.values()):
            self._drop(channel)
        self.upstream.detach(self)
        self.upstream.flush()
        self.upstream.keep_place(self._lane)
