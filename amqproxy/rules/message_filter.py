"""Filter for the messages and requests of one connection, of any protocol."""

from __future__ import annotations

from collections.abc import Callable

from amqproxy.peer import Peer
from amqproxy.rules.context import Client
from amqproxy.rules.dialects import DIALECTS
from amqproxy.rules.matching.filters import Filter
from amqproxy.taps.trace.events import CommandMethod, MessageProperties


class MessageFilter:
    """Filter for complete commands of both peers; see `SelectorDialect`."""

    def __init__(self, chosen: Filter, client: Client) -> None:
        self._dialects = [each.commands(chosen, client) for each in DIALECTS.values()]

    def learn(self, sender: Peer, frame: object) -> None:
        """Update the client facts from a frame of channel 0."""
        for each in self._dialects:
            each.learn(sender, frame)

    def selects(
        self,
        sender: Peer,
        channel: int,
        method: CommandMethod,
        properties: MessageProperties,
        size: int,
        body: bytes,
        *,
        ts_ns: int,
        tags: tuple[str, ...] = (),
    ) -> bool:
        """Whether the filter holds; also true if it fails, so that the command is seen."""
        for each in self._dialects:
            if isinstance(method, each.METHODS):
                return each.selects(sender, channel, method, properties, size, body, ts_ns=ts_ns, tags=tags)
        return True


def message_filters_of(chosen: Filter) -> Callable[[int, str], MessageFilter]:
    """Return a factory of message filters, by the number and name of a connection."""

    def filter_of(number: int, name: str) -> MessageFilter:
        return MessageFilter(chosen, Client.named(number, name))

    return filter_of
