"""The frames of one connection of AMQP 0-10 that a filter lets by: those of the commands for which it holds.

The names of a filter mean here: `method` a control or command; `exchange` the one that a client's message.transfer is
to, or that a server's comes from; `routing_key` what the message has, or a binding's key; `consumer_tag` a
subscription's destination; `properties` all properties of a message, `headers` its application-headers. Tags, and what
is counted on a channel, are not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from amqproxy.amqp010.assembly import Assembly, AssemblyReader
from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.controls import ConnectionOpen, ConnectionStartOk
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import Frame
from amqproxy.amqp010.login import user_of
from amqproxy.amqp010.properties import Header
from amqproxy.amqp010.wire import Map
from amqproxy.peer import CLIENT, Peer
from amqproxy.rules.context import Client
from amqproxy.rules.matching.attributes import SECRETS
from amqproxy.rules.matching.filters import Filter, FilterFailed
from amqproxy.taps.amqp010_record import plain


class AssemblyFilter:
    """Filters what both peers of a connection send, from its beginning.

    What is of one assembly comes when it is whole. What the filter fails on, or what is malformed, is let by: that
    should be seen.
    """

    def __init__(self, chosen: Filter, client: Client) -> None:
        self._filter = chosen
        self._client = client
        self._readers: dict[tuple[Peer, int], AssemblyReader] = {}

    def sift(
        self, sender: Peer, frames: Sequence[Frame], command_ids: Sequence[int | None], time: float
    ) -> list[tuple[Frame, int | None]]:
        """Of these frames, and of those held back before, the ones that are let by now, each with its command's id."""
        passed: list[tuple[Frame, int | None]] = []
        for frame, command_id in zip(frames, command_ids, strict=True):
            reader = self._readers.get((sender, frame.channel))
            if reader is None:
                reader = self._readers[sender, frame.channel] = AssemblyReader()
            try:
                assembly = reader.add(frame)
            except ProtocolError:
                passed.append((frame, command_id))
                continue
            if assembly is not None:
                self._learn(sender, assembly)
                if self._holds(sender, assembly, time):
                    passed += [(each, command_id) for each in assembly.frames]
        return passed

    def _holds(self, sender: Peer, assembly: Assembly, time: float) -> bool:
        try:
            return self._filter.holds(lambda path: self._value(path, sender, assembly, time))
        except (FilterFailed, ProtocolError):
            return True

    def _learn(self, sender: Peer, assembly: Assembly) -> None:
        """Know the client by what it sends while it logs in."""
        if sender is not CLIENT or assembly.is_command:
            return
        method = assembly.method
        if isinstance(method, ConnectionStartOk):
            user, found = user_of(method, self._client.tls_subject), plain(method.client_properties or Map())
            self._client = msgspec.structs.replace(self._client, user=user, properties=found)
        elif isinstance(method, ConnectionOpen):
            self._client = msgspec.structs.replace(self._client, vhost=method.virtual_host or "")

    def _value(self, path: str, sender: Peer, assembly: Assembly, time: float) -> Any:
        """What a name stands for; None where there is no such thing."""
        group, _, member = path.partition(".")
        method = assembly.method
        header: Header | None = assembly.header
        match group:
            case "sender":
                return sender.value
            case "method":
                return method.name
            case "time":
                return time
            case "fields":
                return {name: plain(each) for name, each in method.to_dict().items() if name not in SECRETS}
            case "channel":
                return assembly.channel if member == "number" else None
            case "client":
                return getattr(self._client, member) or None
            case "tls":
                return getattr(self._client, f"{group}_{member}" if member == "subject" else member) or None
            case "vhost" | "user" | "listener" | "upstream":
                return getattr(self._client, group) or None
            case "exchanges" | "queues" | "routing_keys":
                found = self._value(group[:-1], sender, assembly, time)
                return [] if found is None else [found]
            case "size":
                return assembly.body_size if method.carries_content else None
            case "body":
                return assembly.body.decode("utf-8", "replace") if method.carries_content else None
            case "json":
                return _json(assembly.body) if method.carries_content else None
            case "headers" if method.carries_content:
                return plain(_property(header, "application_headers") or Map())
            case "properties":
                return plain(_property(header, member))
            case "exchange" if isinstance(method, MessageTransfer):
                return method.destination or "" if sender is CLIENT else _property(header, "exchange")
            case "routing_key":
                return _property(header, "routing_key") if header else getattr(method, "binding_key", None)
            case "consumer_tag":
                return getattr(method, "destination", None) if method.name in _OF_SUBSCRIPTIONS else None
            case _:
                return plain(getattr(method, path, None))


_OF_SUBSCRIPTIONS = frozenset({"message.subscribe", "message.cancel", "message.flow", "message.stop", "message.flush"})


def _property(header: Header | None, name: str) -> Any:
    for entry in header.entries if header is not None else ():
        found = getattr(entry, name, None)
        if found is not None:
            return found
    return None


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
