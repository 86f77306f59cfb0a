"""Channels of one connection by number, and the effects of rare methods on them."""

from __future__ import annotations

from amqproxy.amqp091.methods import (
    BasicCancel,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConfirmSelect,
    ConnectionClose,
    Method,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
)
from amqproxy.amqp091.transitions import ANSWERS, REPLIES
from amqproxy.taps.metering.amqp091.channel_meter import MAX_SETTLEMENTS, ChannelMeter
from amqproxy.taps.metering.message_counts import MessageCounts
from amqproxy.taps.trace.budget import Budget

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

MAX_REQUESTS_SIZE = 1 << 20
"""Limit in bytes on the consumers and unanswered requests of one connection."""


@cython.final
@cython.cclass
class ChannelMeters:
    """Channels that the client has opened, `by_number`.

    The client may reopen a channel before the broker has closed the previous one with that number, which is kept for
    the frames that the broker still sends on it.
    """

    def __init__(self, counts: MessageCounts) -> None:
        self._counts = counts
        self.by_number: dict[int, ChannelMeter] = {}
        self._previous: dict[int, ChannelMeter] | None = None
        self._recent: ChannelMeter | None = None
        self._recent_number = -1
        self._budget: Budget | None = None
        self._settlements: Budget | None = None

    @cython.cfunc
    def of(self, is_server: cython.bint, number: cython.int) -> ChannelMeter | None:
        """Return the channel that a peer's frame with this number belongs to; `None` if there is none."""
        if is_server and self._previous and number in self._previous:
            return self._previous[number]
        if number != self._recent_number:
            self._recent = self.by_number.get(number)
            self._recent_number = number
        return self._recent

    @cython.cfunc
    def new(self, number: cython.int) -> ChannelMeter:
        """Begin a channel."""
        channel = self.by_number[number] = ChannelMeter(self._counts)
        self._recent_number = -1
        return channel

    def _end(self, channels: dict[int, ChannelMeter], number: int) -> None:
        channel: ChannelMeter | None = channels.pop(number, None)
        self._recent_number = -1
        if channel is not None:
            channel.end()

    def close(self) -> None:
        """End all channels, since the connection has ended."""
        for channels in (self._previous, self.by_number):
            for number in tuple(channels or ()):
                self._end(channels or {}, number)

    def take(self, is_server: bool, number: int, method: Method, now_ns: int) -> Method | None:
        """Take a rare method; return the request that it answers, if that is known."""
        if isinstance(method, ChannelOpen):
            self._open(number)
        elif isinstance(method, ChannelClose):
            closed = self.of(is_server, number)
            if closed is not None:
                closed.close(is_server)
        elif isinstance(method, ChannelCloseOk):
            self._close_answered(is_server, number)
        elif isinstance(method, ConnectionClose):
            for channel in self.by_number.values() if is_server else ():
                channel.is_unread = True
        elif is_server:
            return self._apply_from_server(number, method, now_ns)
        else:
            self._apply_from_client(number, method, now_ns)
        return None

    def _open(self, number: int) -> None:
        """Open a channel for the client, which may not have waited for the end of the previous one."""
        channel = self.by_number.get(number)
        if channel is not None:
            if not channel.is_closing:
                return  # the broker will refuse it
            if self._previous is None:
                self._previous = {}
            self._end(self._previous, number)
            self._previous[number] = channel
        self.new(number)

    def _close_answered(self, is_server: bool, number: int) -> None:
        """Take channel.close-ok of a peer: the last one ends the channel."""
        channels = self.by_number
        if self._previous and number in self._previous and (is_server or self._previous[number].is_unread):
            channels = self._previous
        channel = channels.get(number)
        if channel is not None and channel.close_answered(is_server):
            self._end(channels, number)

    def _apply_from_client(self, number: int, method: Method, now_ns: int) -> None:
        if method.name not in REPLIES and not isinstance(method, BasicRecoverAsync):
            return
        channel = self.by_number.get(number) or self.new(number)
        if channel.is_unread:
            return
        if isinstance(method, ConfirmSelect):
            channel.confirms = True
        elif isinstance(method, TxSelect):
            if self._settlements is None:
                self._settlements = Budget(MAX_SETTLEMENTS)
            channel.begin_transactions(self._settlements)
        elif isinstance(method, (TxCommit, TxRollback)):
            channel.end_transaction(is_commit=isinstance(method, TxCommit))
        elif isinstance(method, BasicRecoverAsync):
            channel.recover(is_answer=False)
            return
        elif isinstance(method, BasicRecover):
            channel.begin_recovery()
        if self._budget is None:
            self._budget = Budget(MAX_REQUESTS_SIZE)
        channel.request(method, now_ns, self._budget)

    def _apply_from_server(self, number: int, method: Method, now_ns: int) -> Method | None:
        channel = self.of(True, number)
        if channel is None:
            return None
        found = channel.answer(method, now_ns) if method.name in ANSWERS else None
        if isinstance(method, BasicCancel):
            channel.end_consumer_by_broker(method.consumer_tag)
        elif isinstance(method, BasicRecoverOk):
            channel.recover(is_answer=True)
        elif isinstance(method, (TxCommitOk, TxRollbackOk)):
            channel.transaction_ended(now_ns)
        return None if found is None else found.request
