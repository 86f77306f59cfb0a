"""Which method made the broker close a channel or the connection: what it names as the cause, and what was sent."""

from __future__ import annotations

from collections import deque

from amqproxy.amqp091.methods import METHODS, ChannelClose, ConnectionClose, Method
from amqproxy.amqp091.transitions import REPLIES
from amqproxy.taps.trace.requests import PendingRequests

MAX_RECENT = 32
"""Methods of the client that one channel remembers."""

_IDENTIFYING = ("delivery_tag", "exchange", "queue", "consumer_tag", "destination")
"""Fields by which a reply text tells methods of one kind apart."""


def named_method(close: ChannelClose | ConnectionClose) -> str | None:
    """The method that a close names as its cause; None where it names none. Section 1.4.2.10."""
    cls = METHODS.get(close.failing_class_id << 16 | close.failing_method_id)
    return None if cls is None else cls.name


class RecentMethods:
    """The last methods that the client sent on a channel."""

    __slots__ = ("_methods",)

    def __init__(self) -> None:
        self._methods: deque[Method] = deque(maxlen=MAX_RECENT)

    def add(self, method: Method) -> None:
        self._methods.append(method)

    def cause(self, close: ChannelClose | ConnectionClose, pending: PendingRequests | None = None) -> Method | None:
        """The method that a close is about, if it is certain which one that is.

        A broker works through the methods of a channel in order: so of the requests it is the oldest without a reply;
        of others, the one whose tag or name is in the text, or the only one of its kind.
        """
        name = named_method(close)
        if name is None or name.startswith("connection."):
            return None
        sent = [each for each in self._methods if each.name == name]
        if not sent:
            return None
        if name in REPLIES and pending is not None:
            oldest = pending.oldest(name)
            if oldest is not None and not any(getattr(each, "no_wait", False) for each in sent):
                return oldest
        named = [each for each in sent if _is_named(each, close.reply_text)] or sent
        return named[0] if all(each == named[0] for each in named) else None


def _is_named(method: Method, text: str) -> bool:
    """Does a reply text name the tag or the name that `method` has? RabbitMQ quotes names, and tags come last."""
    for field in _IDENTIFYING:
        value = getattr(method, field, None)
        if isinstance(value, int):
            if text.endswith(f" {value}"):
                return True
        elif value and f"'{value}'" in text:
            return True
    return False
