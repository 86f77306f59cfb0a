"""Mapping between recorded and live names, where a broker or a client has chosen another name in this run.

A recording has names that a broker generated: of queues, of consumers, and the addresses of direct replies. Another run
has others. `SharedNames` maps those of all connections that are played together, `ConnectionNames` adds the consumer
tags of one connection; in both directions, and in all places where a command may have a name.
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
"""Names of each kind that are remembered; the oldest is forgotten first."""

GIVEN_BY_BROKER = "amq."
"""Prefix of broker-generated names, and of the brokers' predefined exchanges."""

_SUFFIXED = (NameKind.QUEUE, NameKind.EXCHANGE)


class _Pairs:
    """Recorded names and the live ones, both ways."""

    __slots__ = ("to_live", "to_recorded")

    def __init__(self) -> None:
        # A dict would need ever longer to find its first entry after many deletions.
        self.to_live: OrderedDict[str, str] = OrderedDict()
        self.to_recorded: OrderedDict[str, str] = OrderedDict()

    def learn(self, recorded: str, live: str) -> None:
        for names, key, value in ((self.to_live, recorded, live), (self.to_recorded, live, recorded)):
            names.pop(key, None)
            names[key] = value
            if len(names) > MAX_NAMES:
                names.popitem(last=False)


class SharedNames:
    """Names of queues and exchanges, for all connections that are played together.

    Each queue and exchange that a client has named gets the `suffix`, so that copies of a capture do not interfere;
    broker-generated names do not. A routing key is a queue's name with the default exchange, or if it equals a name
    that the broker generated.
    """

    def __init__(self, suffix: str = "") -> None:
        self.suffix = suffix
        self._pairs: dict[NameKind, _Pairs] = {}

    def learn(self, kind: NameKind, recorded: str, live: str) -> None:
        """Map `recorded` to `live`, and back."""
        pairs = self._pairs.get(kind)
        if pairs is None:
            pairs = self._pairs[kind] = _Pairs()
        pairs.learn(recorded, live)

    def to_live(self, kind: NameKind, recorded: str) -> str:
        """Return the live name for a recorded one; unchanged if none was learned and no suffix applies."""
        pairs = self._of(kind)
        live = None if pairs is None else pairs.to_live.get(recorded)
        if live is not None:
            return live
        if self.suffix and kind in _SUFFIXED and recorded and not recorded.startswith(GIVEN_BY_BROKER):
            return _suffixed(recorded, self.suffix)
        return recorded

    def to_recorded(self, kind: NameKind, live: str) -> str:
        """Return the recorded name for a live one; unchanged if none was learned and no suffix applies."""
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
    """Names of one connection: the shared ones, and the consumer tags of each channel."""

    def __init__(self, shared: SharedNames) -> None:
        self.shared = shared
        self._tags: dict[int, _Pairs] = {}

    def learn_consumer_tag(self, channel: int, recorded: str, live: str) -> None:
        """Map a consumer tag of a channel to the live one, and back."""
        self._tags.setdefault(channel, _Pairs()).learn(recorded, live)

    def learn(self, recorded: Command, live: Command) -> None:
        """Map the generated names in a broker's command to those in its live counterpart."""
        one, other = recorded.method, live.method
        if isinstance(one, QueueDeclareOk) and isinstance(other, QueueDeclareOk):
            self._learn_given(one.queue, other.queue)
        elif isinstance(one, BasicConsumeOk) and isinstance(other, BasicConsumeOk):
            if one.consumer_tag != other.consumer_tag:
                self.learn_consumer_tag(recorded.channel, one.consumer_tag, other.consumer_tag)
        elif one.name in MESSAGES and other.name in MESSAGES:
            self._learn_given(recorded.properties.reply_to, live.properties.reply_to)  # a direct reply's address

    def _learn_given(self, recorded: str | None, live: str | None) -> None:
        if recorded and live and recorded != live and recorded.startswith(GIVEN_BY_BROKER):
            self.shared.learn(NameKind.QUEUE, recorded, live)

    def end_channel(self, channel: int) -> None:
        """Forget the consumer tags of a channel."""
        self._tags.pop(channel, None)

    def live(self, recorded: Command) -> Command:
        """Return a recorded command with the live names; the same object if no name differs."""
        tags = self._tags.get(recorded.channel)

        def rename(kind: NameKind, name: str) -> str:
            if kind is NameKind.CONSUMER_TAG:
                return name if tags is None else tags.to_live.get(name, name)
            return self.shared.to_live(kind, name)

        return _renamed(recorded, rename, is_back=False)

    def recorded(self, live: Command) -> Command:
        """Return a live command with the recorded names; the same object if no name differs."""
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
    """Return the routing key of a dead letter that was first published with it to the default exchange, else "".

    Such a key is a queue's name, although the message's exchange is not the default one any more.
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
    """Return the command with its names replaced. `ProtocolError` if it is malformed."""
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
