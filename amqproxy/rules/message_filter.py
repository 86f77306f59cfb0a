"""Filter for the messages and requests of one connection, of either protocol."""

from __future__ import annotations

from collections.abc import Callable

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.frame import Frame as Amqp010Frame
from amqproxy.amqp010.methods import Method as Amqp010Method
from amqproxy.amqp091.frame import Frame
from amqproxy.peer import Peer
from amqproxy.rules.amqp010.assembly_filter import AssemblyFilter
from amqproxy.rules.context import Client
from amqproxy.rules.engine.command_filter import CommandFilter
from amqproxy.rules.matching.filters import Filter
from amqproxy.taps.amqp010.transfers import TransferBase, TransferProperties
from amqproxy.taps.trace.events import CommandMethod, MessageProperties


class MessageFilter:
    """Filter for complete commands of both peers; see `CommandFilter` and `AssemblyFilter`."""

    def __init__(self, chosen: Filter, client: Client) -> None:
        self._commands = CommandFilter(chosen, client)
        self._assemblies: AssemblyFilter[None] = AssemblyFilter(chosen, client)

    def learn(self, sender: Peer, frame: Frame | Amqp010Frame) -> None:
        """Update the client facts from a frame of channel 0."""
        if isinstance(frame, Amqp010Frame):
            self._assemblies.learn(sender, frame)
        else:
            self._commands.learn(sender, frame)

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
        if isinstance(method, TransferBase):
            header = properties.header if isinstance(properties, TransferProperties) else None
            assembly = Assembly(channel, method.transfer, header, body)
            return self._assemblies.holds(sender, assembly, ts_ns / 1e9, size=size)
        if isinstance(method, Amqp010Method):
            return self._assemblies.holds(sender, Assembly(channel, method), ts_ns / 1e9)
        return self._commands.selects(sender, channel, method, properties, size, body, ts_ns=ts_ns, tags=tags)


def message_filters_of(chosen: Filter) -> Callable[[int, str], MessageFilter]:
    """Return a factory of message filters, by the number and name of a connection."""

    def filter_of(number: int, name: str) -> MessageFilter:
        return MessageFilter(chosen, Client.named(number, name))

    return filter_of
