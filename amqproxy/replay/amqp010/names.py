"""Replacement of queue and exchange names in 0-10 controls and commands, by way of their 0-9-1 views."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import ExchangeBound
from amqproxy.amqp010.properties import ReplyTo
from amqproxy.amqp091.commands import Command
from amqproxy.conversion.amqp010.command_view import changed_assembly, command_view
from amqproxy.peer import CLIENT, Peer
from amqproxy.replay.names import ConnectionNames
from amqproxy.rules.rewriting.name_fields import NameKind


def with_live_names(names: ConnectionNames, sender: Peer, assembly: Assembly) -> Assembly:
    """Return a recorded control or command with the live names; the same object if no name differs.

    `Inexpressible` or a `ProtocolError` of either protocol if a name cannot be inserted.
    """
    return _renamed(sender, assembly, names.live, names.shared.to_live)


def with_recorded_names(names: ConnectionNames, assembly: Assembly) -> Assembly:
    """Return a client's control or command with the recorded names, as `with_live_names` does."""
    return _renamed(CLIENT, assembly, names.recorded, names.shared.to_recorded)


def _renamed(
    sender: Peer,
    assembly: Assembly,
    with_names: Callable[[Command], Command],
    name: Callable[[NameKind, str], str],
) -> Assembly:
    method = assembly.method
    if isinstance(method, ExchangeBound):  # its 0-9-1 view has the exchange only
        queue, exchange = name(NameKind.QUEUE, method.queue or ""), name(NameKind.EXCHANGE, method.exchange or "")
        if (queue, exchange) == (method.queue or "", method.exchange or ""):
            return assembly
        return assembly.altered(method=replace(method, queue=queue, exchange=exchange))
    view = command_view(sender, assembly)
    if view is None or view.index < 0:
        return assembly
    renamed = with_names(view)
    changed = assembly if renamed is view else changed_assembly(sender, assembly, view, renamed)
    return _with_reply_to(changed, assembly.properties.reply_to, name) if method.carries_content else changed


def _with_reply_to(assembly: Assembly, before: ReplyTo | None, name: Callable[[NameKind, str], str]) -> Assembly:
    """Replace the queue in an unchanged reply-to: 0-9-1 joins it with its exchange, and may not recognise it."""
    reply_to, header = assembly.properties.reply_to, assembly.header
    if reply_to is None or reply_to != before or header is None:
        return assembly
    queue = name(NameKind.QUEUE, reply_to.routing_key or "")
    if queue == (reply_to.routing_key or ""):
        return assembly
    properties = replace(assembly.properties, reply_to=replace(reply_to, routing_key=queue))
    return assembly.altered(header=header.replacing(properties))
