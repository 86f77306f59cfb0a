"""The life of one channel: opened, asked to stop or go on, closed."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp091.methods import ChannelClose, ChannelFlow, Method
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.taps.trace.amqp091.causes import named_method
from amqproxy.taps.trace.amqp091.frame_order import Missing
from amqproxy.taps.trace.channel_context import ChannelContext
from amqproxy.taps.trace.events import ChannelClosed, ChannelOpened, FlowChanged

_CLOSE = Missing(frozenset(("channel.close",)))
_CLOSE_OK = Missing(frozenset(("channel.close-ok",)))


class ChannelLife:
    """State of one channel, from channel.open and channel.close and their replies.

    `is_opened` is whether the broker has answered channel.open.
    """

    __slots__ = ("_closes", "_context", "_opened_ts_ns", "is_opened")

    def __init__(self, context: ChannelContext[Any]) -> None:
        self.is_opened = not context.knows_start
        self._context = context
        self._opened_ts_ns: int | None = None
        self._closes: set[Peer] = set()

    @property
    def is_closing(self) -> bool:
        """Whether either peer has sent a channel.close that is unanswered."""
        return bool(self._closes)

    @property
    def lacks_close_ok(self) -> bool:
        """Whether the client has not answered the broker's channel.close."""
        return SERVER in self._closes

    @property
    def closing(self) -> tuple[str, ...]:
        """The peers that have sent a channel.close that is unanswered."""
        return tuple(str(peer) for peer in Peer if peer in self._closes)

    @property
    def opening_ts_ns(self) -> int | None:
        """Time of the client's channel.open, if that is unanswered."""
        return None if self.is_opened else self._opened_ts_ns

    def restore(self, closing: tuple[str, ...], opened_ts_ns: int | None) -> None:
        """Take the peers that have sent channel.close, and the time of channel.open if that is unanswered."""
        self._closes = {Peer(each) for each in closing}
        self._context.is_unread = bool(closing)
        self._opened_ts_ns = opened_ts_ns
        self.is_opened = opened_ts_ns is None

    def open(self, ts_ns: int) -> None:
        """Note the client's channel.open."""
        self._opened_ts_ns = ts_ns

    def opened(self, ts_ns: int) -> None:
        """Note the broker's channel.open-ok, and report it."""
        self.is_opened = True
        context = self._context
        asked_ts_ns, self._opened_ts_ns = self._opened_ts_ns, None
        latency = None if asked_ts_ns is None else ts_ns - asked_ts_ns
        context.events.append(ChannelOpened(ts_ns, *context.place, latency_ns=latency))

    def flow(self, sender: Peer, method: ChannelFlow, ts_ns: int) -> None:
        """Report channel.flow of `sender`."""
        context = self._context
        context.events.append(FlowChanged(ts_ns, *context.place, sender=sender, is_active=method.active))

    def close(self, sender: Peer, method: ChannelClose, cause: Method | None, ts_ns: int) -> None:
        """Note channel.close of `sender`, and report it: after it, the broker reads nothing else of the client."""
        context = self._context
        self._closes.add(sender)
        context.is_unread = True
        context.events.append(
            ChannelClosed(
                ts_ns,
                *context.place,
                by=sender,
                code=method.reply_code,
                text=method.reply_text,
                method=named_method(method),
                cause=cause,
            )
        )

    def missing_for_close_ok(self, sender: Peer) -> Missing | None:
        """Return the close that `sender` answers with channel.close-ok; `None` if it was seen."""
        return None if sender.other in self._closes else _CLOSE

    def missing_for_open(self) -> Missing | None:
        """Return the channel.close-ok that has to precede another channel.open of the client; `None` if none is due."""
        return _CLOSE_OK if CLIENT in self._closes else None

    def close_answered(self, sender: Peer) -> bool | None:
        """Note channel.close-ok of `sender`; return whether the channel is closed. `None` without a channel.close."""
        if sender.other not in self._closes:
            return None
        self._closes.remove(sender.other)
        return not self._closes

    def lose(self) -> None:
        """Reset the state that depends on frames which were missed."""
        self.is_opened = True
        self._closes.clear()

    def forget_opening(self) -> None:
        """Forget the time of channel.open, since the next channel.open-ok may answer another."""
        self._opened_ts_ns = None
