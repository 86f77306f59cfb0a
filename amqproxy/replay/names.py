"""Which live name stands for which recorded one, where a broker or a client has chosen another this time.

A recording has names that a broker made up: of queues, of consumers, and the addresses of direct replies. Another run
has others. `SharedNames` knows those of all connections that are played together, `ConnectionNames` adds the consumer
tags of one connection; both ways, and in all places where a command may have a name.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BasicConsumeOk, ChannelClose, ConnectionClose, Method, QueueDeclareOk
from amqproxy.amqp091.wire import Array, Table
from amqproxy.rules.rewriting.name_fields import MESSAGES, NameKind, renamed, renamed_properties, renamed_text
from amqproxy.rules.short_strings import fits

MAX_NAMES = 1_000_000
"""How many names of each kind are remembered; the oldest is forgotten first."""

GIVEN_BY_BROKER = "amq."
"""How the names begin that brokers give, and the exchanges that each of them has."""

_SUFFIXED = (NameKind.QUEUE, NameKind.EXCHANGE)


class _Pairs:
    """Recorded names and the live ones, both ways."""

    __slots__ = ("to_live", "to_recorded")

    def __init__(self) -> None:
        self.to_live: OrderedDict[str, str] = OrderedDict()  # whose first is found at once, however many went before
        self.to_recorded: OrderedDict[str, str] = OrderedDict()

    def learn(self, recorded: str, live: str) -> None:
        for names, key, value in ((self.to_live, recorded, live), (self.to_recorded, live, recorded)):
            names.pop(key, None)
            names[key] = value
            if len(names) > MAX_NAMES:
                names.popitem(last=False)


class SharedNames:
    """The names of queues and exchanges, for all connections that are played together.

    With a `suffix`, each queue and exchange that a client has named gets it, so that copies of a capture do not meet:
    but not the broker's own. A routing key is a queue's name with the default exchange, or where it equals a name that
    the broker gave.
    """

    def __init__(self, suffix: str = "") -> None:
        self.suffix = suffix
        self._pairs: dict[NameKind, _Pairs] = {}

    def learn(self, kind: NameKind, recorded: str, live: str) -> None:
        """`live` stands for `recorded`."""
        pairs = self._pairs.get(kind)
        if pairs is None:
            pairs = self._pairs[kind] = _Pairs()
        pairs.learn(recorded, live)

    def to_live(self, kind: NameKind, recorded: str) -> str:
        """The live name for a recorded one; itself, if there is no other."""
        pairs = self._of(kind)
        live = None if pairs is None else pairs.to_live.get(recorded)
        if live is not None:
            return live
        if self.suffix and kind in _SUFFIXED and recorded and not recorded.startswith(GIVEN_BY_BROKER):
            return _suffixed(recorded, self.suffix)
        return recorded

    def to_recorded(self, kind: NameKind, live: str) -> str:
        """The way back."""
        pairs = self._of(kind)
        recorded = None if pairs is None else pairs.to_recorded.get(live)
        if recorded is not None:
            return recorded
        if self.suffix and kind in _SUFFIXED and live.endswith(self.suffix):
            return live[: -len(self.suffix)]
        return live

    def _of(self, kind: NameKind) -> _Pairs | None:
        return self._pairs.get(NameKind.QUEUE if kind is NameKind.ROUTING_KEY else kind)


class ConnectionNames:
    """The names of one connection: the shared ones, and the consumer tags of each channel."""

    def __init__(self, shared: SharedNames) -> None:
        self.shared = shared
        self._tags: dict[int, _Pairs] = {}

    def learn_consumer_tag(self, channel: int, recorded: str, live: str) -> None:
        """The consumer `recorded` of a channel is called `live`."""
        self._tags.setdefault(channel, _Pairs()).learn(recorded, live)

    def learn(self, recorded: Command, live: Command) -> None:
        """Two commands of the broker stand for each other: so do the names that it has made up for them."""
        one, other = recorded.method, live.method
        if isinstance(one, QueueDeclareOk) and isinstance(other, QueueDeclareOk):
            self._learn_given(one.queue, other.queue)
        elif isinstance(one, BasicConsumeOk) and isinstance(other, BasicConsumeOk):
            if one.consumer_tag != other.consumer_tag:
                self.learn_consumer_tag(recorded.channel, one.consumer_tag, other.consumer_tag)
        elif one.name in MESSAGES and other.name in MESSAGES:
            self._learn_given(recorded.properties.reply_to, live.properties.reply_to)  # of a direct reply

    def _learn_given(self, recorded: str | None, live: str | None) -> None:
        if recorded and live and recorded != live and recorded.startswith(GIVEN_BY_BROKER):
            self.shared.learn(NameKind.QUEUE, recorded, live)

    def end_channel(self, channel: int) -> None:
        """The consumers of a channel are no more."""
        self._tags.pop(channel, None)

    def live(self, recorded: Command) -> Command:
        """A recorded command with the live names; the very same, if none is another."""
        tags = self._tags.get(recorded.channel)

        def rename(kind: NameKind, name: str) -> str:
            if kind is NameKind.CONSUMER_TAG:
                return name if tags is None else tags.to_live.get(name, name)
            return self.shared.to_live(kind, name)

        return _renamed(recorded, rename, is_back=False)

    def recorded(self, live: Command) -> Command:
        """A live command with the recorded names; the very same, if none is another."""
        tags = self._tags.get(live.channel)
        key = _queue_of_dead_letter(live)

        def rename(kind: NameKind, name: str) -> str:
            if kind is NameKind.CONSUMER_TAG:
                return name if tags is None else tags.to_recorded.get(name, name)
            if kind is NameKind.ROUTING_KEY and name == key:
                kind = NameKind.QUEUE
            return self.shared.to_recorded(kind, name)

        return _renamed(live, rename, is_back=True)


def _queue_of_dead_letter(command: Command) -> str:
    """The routing key of a dead letter that was first published with it to the default exchange; "" if it is not one.

    Such a key is a queue's name, though the exchange that the message came from then is another one.
    """
    if command.method.name not in MESSAGES:
        return ""
    key: str = getattr(command.method, "routing_key", "")
    deaths = (command.properties.headers or Table()).get("x-death")
    for death in deaths if isinstance(deaths, Array) else ():
        if isinstance(death, Table) and death.get("exchange") == "" and key in (death.get("routing-keys") or ()):
            return key
    return ""


def _renamed(command: Command, rename: Callable[[NameKind, str], str], *, is_back: bool) -> Command:
    """The command with other names. `ProtocolError` if it is malformed."""
    method: Method = command.method
    if isinstance(method, ChannelClose | ConnectionClose):
        text = renamed_text(method.reply_text, rename)
        if text == method.reply_text:
            return command
        fields = {name: getattr(method, name) for name in method.__struct_fields__}
        return command.altered(method=type(method)(**(fields | {"reply_text": text})))
    new = renamed(method, rename, is_back=is_back)
    properties = None
    if method.name in MESSAGES:
        exchange = (method if not is_back else new).exchange  # type: ignore[attr-defined]
        properties = renamed_properties(command.properties, exchange, rename)
        if properties is command.properties:
            properties = None
    if new is method and properties is None:
        return command
    return command.altered(method=new, properties=properties)


def _suffixed(name: str, suffix: str) -> str:
    if fits(name + suffix):
        return name + suffix
    digest = hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
    return f"{digest}{suffix}"
