"""The method that made the broker close a channel or the connection, found from the close and the methods sent."""

from __future__ import annotations

import re
from collections.abc import Iterable

from amqproxy.amqp091.methods import METHODS, ChannelClose, ConnectionClose, Method
from amqproxy.amqp091.transitions import REPLIES
from amqproxy.taps.trace.budget import Budget
from amqproxy.taps.trace.requests import REQUEST_COST, TABLE_COST, PendingRequests

MAX_RECENT = 32
"""Limit on the client's methods that one channel remembers."""

_NOUNS = {
    "exchange": "exchange",
    "queue": "queue",
    "consumer_tag": "consumer tag",
    "destination": "exchange",
    "source": "exchange",
}
"""Nouns of RabbitMQ's reply texts for the objects that method fields name."""


def named_method(close: ChannelClose | ConnectionClose) -> str | None:
    """Return the name of the method that a close gives as its cause; `None` if it gives none. Section 1.4.2.10."""
    cls = METHODS.get(close.failing_class_id << 16 | close.failing_method_id)
    return None if cls is None else cls.name


_NAMES_SOMETHING = re.compile(rf"\b(?:{'|'.join(sorted(set(_NOUNS.values())))}) '|delivery tag \d").search
"""Finds a quoted name or a delivery tag in a reply text."""


class RecentMethods:
    """The client's last methods on a channel that no reply has shown to be carried out.

    A broker works through the methods of a channel in order: those before an answered request did not fail.
    """

    __slots__ = ("_budget", "_dropped", "_is_lost", "_methods", "_refused")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._methods: list[tuple[Method, int]] = []
        self._dropped: dict[str, None] = {}
        self._refused: Method | None = None
        self._is_lost = False

    def add(self, method: Method, size: int) -> None:
        """Remember a method of the client, sent in a frame of `size` bytes."""
        methods = self._methods
        if methods and methods[-1][0] is method:
            return  # a publish equal to the previous one
        cost = REQUEST_COST + TABLE_COST * size
        if len(methods) >= MAX_RECENT:
            dropped, given = methods.pop(0)
            self._budget.left += given
            self._drop(dropped)
        if cost > self._budget.left:
            self._drop(method)
        else:
            self._budget.left -= cost
            methods.append((method, cost))

    def _drop(self, method: Method) -> None:
        """Note that a method was forgotten, unless it is a request with a reply: `PendingRequests` has those."""
        if method.name not in REPLIES or getattr(method, "no_wait", False):
            self._dropped[method.name] = None

    def refuse(self, method: Method) -> None:
        """Note the first method that the broker has to refuse, since its delivery tag is not open."""
        if self._refused is None:
            self._refused = method

    def carried_out(self, request: Method) -> None:
        """Forget a request that was answered, and all methods before it: they did not fail."""
        methods = self._methods
        if any(each is request for each, _ in methods):
            self._dropped.clear()
            self._is_lost = False  # the methods after the request were all seen
            while methods:
                method, cost = methods.pop(0)
                self._budget.give(cost)
                if method is request:
                    break

    def causes(
        self, close: ChannelClose | ConnectionClose, pending: PendingRequests | None = None
    ) -> list[Method] | None:
        """Return the different methods that a close may be about; `None` if there may be others that were forgotten.

        A broker works through the methods of a channel in order: so of the requests it is the oldest without a reply;
        of others, the one whose tag or name is in the text, or the only one of its kind.
        """
        name = named_method(close)
        if name is None or name.startswith("connection."):
            return []
        refused = self._refused
        if refused is not None and refused.name == name and _is_named(refused, close.reply_text):
            return [refused]
        if self._is_lost or name in self._dropped:
            return None
        sent = [each for each, _ in self._methods if each.name == name]
        if name in REPLIES and pending is not None:
            unanswered = pending.of_kind(name)
            if unanswered is None:
                return None
            no_wait = [each for each in sent if getattr(each, "no_wait", False)]
            if not no_wait and name != "basic.consume":  # RabbitMQ may close before it replies to that
                unanswered = unanswered[:1]
            sent = [*unanswered, *no_wait] or sent
        return _different([each for each in sent if _is_named(each, close.reply_text)] or sent)

    def has_cause(self, close: ChannelClose | ConnectionClose, pending: PendingRequests | None = None) -> bool:
        """Whether a method was seen that a close may be about; a tag or name in the reply text must be the method's."""
        causes = self.causes(close, pending)
        if causes is None:
            return True
        if _NAMES_SOMETHING(close.reply_text):
            return any(_is_named(each, close.reply_text) for each in causes)
        return bool(causes)

    def lose(self) -> None:
        """Forget all methods, since some of the client's were missed: no cause is certain after that."""
        self.clear()
        self._is_lost = True

    def clear(self) -> None:
        for _, cost in self._methods:
            self._budget.give(cost)
        self._methods.clear()
        self._refused = None


def only_cause(causes: Iterable[list[Method] | None]) -> Method | None:
    """Return the only method that a close can be about, given the causes on each channel; `None` if not exactly one."""
    found: list[Method] = []
    for each in causes:
        if each is None:
            return None
        found += each
    return found[0] if len(found) == 1 else None


def _different(methods: list[Method]) -> list[Method]:
    found: list[Method] = []
    for method in methods:
        if method not in found:
            found.append(method)
    return found


def _is_named(method: Method, text: str) -> bool:
    """Whether a reply text contains the method's tag or name: RabbitMQ quotes names, and tags come last."""
    tag = getattr(method, "delivery_tag", None)
    if tag is not None:
        return text.endswith(f" {tag}")
    return any(
        value and f"{noun} '{value}'" in text for field, noun in _NOUNS.items() if (value := getattr(method, field, ""))
    )
