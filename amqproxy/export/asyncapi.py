"""Exchanges, queues, bindings and messages of captures as an AsyncAPI 3.0 document.

Channels are routing keys of exchanges, and queues: publishes to the default exchange are sent to a queue. Generated
parts of a name are parameters of its address. It contains no secrets: they are masked in examples, and logins are
omitted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

from amqproxy.export.observed_channels import (
    Address,
    Application,
    ChannelFacts,
    MessageShape,
    ObservedChannels,
    OperationFacts,
)
from amqproxy.rules.matching.generated_names import Generated, Shape
from amqproxy.taps.text import counted

BINDING_VERSION = "0.3.0"

MAX_ID = 80
"""Characters of an identifier; several of them appear in one line."""

_TYPES = ("topic", "direct", "fanout", "headers")
"""The exchange types defined by the AMQP binding."""

_PREDECLARED = {"amq.direct": "direct", "amq.fanout": "fanout", "amq.topic": "topic"} | dict.fromkeys(
    ("amq.headers", "amq.match"), "headers"
)

_PARAMETERS = {
    Generated.SERVER_NAME: ("name", "Chosen by the broker."),
    Generated.REPLY_ADDRESS: ("address", "Chosen by the broker, for direct reply-to."),
    Generated.UUID: ("uuid", "A UUID."),
    Generated.HEX: ("id", "Hexadecimal digits."),
    Generated.NUMBER: ("number", "A number."),
}


def asyncapi(observed: ObservedChannels, captures: Sequence[str]) -> dict[str, Any]:
    """Return the document as JSON values."""
    servers, channels, operations = _Ids(), _Ids(), _Ids()
    more = f" and {len(captures) - 3} more" if len(captures) > 3 else ""
    document: dict[str, Any] = {
        "asyncapi": "3.0.0",
        "info": {
            "title": f"AMQP in {', '.join(captures[:3])}{more}",
            "version": "0.0.0",
            "description": _description(observed),
        },
        "defaultContentType": "application/octet-stream",
        "servers": {},
        "channels": {},
        "operations": {},
    }
    server_ids: dict[tuple[str, str, str], str] = {}
    for address, shape, facts in observed.channels():
        for host, protocol in sorted(facts.servers):
            key = (host, protocol, address.vhost)
            if key not in server_ids:
                server_ids[key] = servers.new(f"{host}{'' if address.vhost == '/' else f'-{address.vhost}'}")
                document["servers"][server_ids[key]] = _server(*key)
        channel_id = channels.new(_readable(address, shape))
        message_ids = _message_ids(facts)
        document["channels"][channel_id] = _channel(observed, address, shape, facts, message_ids, server_ids)
        for (action, who), operation in sorted(facts.operations.items(), key=lambda each: each[0]):
            operation_id = operations.new(f"{who.user or 'unknown'}-{action}-{channel_id}")
            messages = [
                {"$ref": f"#/channels/{channel_id}/messages/{message_ids[kind]}"} for kind in sorted(operation.messages)
            ]
            document["operations"][operation_id] = _operation(action, who, operation, channel_id, messages)
    written: dict[str, Any] = _writable(document)
    return written


def _writable(value: Any) -> Any:
    """Return the value with bytes that are not valid text escaped, since neither JSON nor YAML can hold them."""
    if isinstance(value, dict):
        return {_writable(key): _writable(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_writable(each) for each in value]
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _description(observed: ObservedChannels) -> str:
    left_out = observed.left_out + sum(facts.left_out for _, _, facts in observed.channels())
    text = (
        f"Made by `amqproxy export --asyncapi` from {counted(observed.messages, 'message')} on "
        f"{counted(observed.connections, 'connection')}. It shows what was seen, and not what else may be sent."
    )
    if not left_out:
        return text
    many = "is" if left_out == 1 else "are"
    why = "since there are too many channels, kinds or applications"
    return f"{text} {counted(left_out, 'message')} {many} left out, {why}."


def _server(host: str, protocol: str, vhost: str) -> dict[str, Any]:
    server = {"host": host, "protocol": "amqp", "protocolVersion": protocol, "description": f"Virtual host `{vhost}`."}
    return server if vhost == "/" else server | {"pathname": f"/{_quoted(vhost)}"}


# --- channels


def _channel(
    observed: ObservedChannels,
    address: Address,
    shape: Shape,
    facts: ChannelFacts,
    message_ids: dict[tuple[str, str, str], str],
    server_ids: dict[tuple[str, str, str], str],
) -> dict[str, Any]:
    text, parameters = _address(shape)
    channel: dict[str, Any] = {"address": text or None}
    channel["title"] = (
        f"Queue {text}" if address.is_queue else f"Exchange {address.exchange}, routing key {text or '``'}"
    )
    if facts.servers:
        channel["servers"] = [
            {"$ref": f"#/servers/{server_ids[*server, address.vhost]}"} for server in sorted(facts.servers)
        ]
    if facts.messages:
        channel["messages"] = {message_ids[kind]: _message(kind, each) for kind, each in facts.messages.items()}
    if parameters:
        channel["parameters"] = parameters
    binding = _queue_binding(address, text, facts) if address.is_queue else _exchange_binding(observed, address)
    channel["bindings"] = {"amqp": {**binding, "bindingVersion": BINDING_VERSION}}
    if facts.bindings:
        channel["x-bindings"] = [facts.bindings[key] for key in sorted(facts.bindings)]
    declare = observed.exchanges.get((address.vhost, address.exchange))
    if declare is not None and declare.type not in _TYPES:
        channel["x-exchange-type"] = declare.type
    return channel


def _queue_binding(address: Address, name: str, facts: ChannelFacts) -> dict[str, Any]:
    queue: dict[str, Any] = {"name": name[:255], "vhost": address.vhost}
    for key, spoken in (("durable", "durable"), ("exclusive", "exclusive"), ("auto_delete", "autoDelete")):
        values = facts.declared.get(key, set())
        if len(values) == 1:  # queues of the same shape may differ
            queue[spoken] = next(iter(values))
    return {"is": "queue", "queue": queue}


def _exchange_binding(observed: ObservedChannels, address: Address) -> dict[str, Any]:
    exchange: dict[str, Any] = {"name": address.exchange, "vhost": address.vhost}
    declare = observed.exchanges.get((address.vhost, address.exchange))
    if declare is not None:
        if declare.type in _TYPES:
            exchange["type"] = declare.type
        exchange |= {"durable": declare.durable, "autoDelete": declare.auto_delete}
    elif address.exchange in _PREDECLARED:
        exchange |= {"type": _PREDECLARED[address.exchange], "durable": True, "autoDelete": False}
    return {"is": "routingKey", "exchange": exchange}


def _address(shape: Shape) -> tuple[str, dict[str, Any]]:
    """Return the address of a channel, with a parameter for each generated part, and these parameters."""
    text, parameters = "", {}
    for part in shape:
        if isinstance(part, str):
            text += _quoted_braces(part)
            continue
        name, description = _PARAMETERS[part]
        unique, count = name, 1
        while unique in parameters:
            count += 1
            unique = f"{name}{count}"
        parameters[unique] = {"description": description}
        text += f"{{{unique}}}"
    return text, parameters


# --- messages


def _message_ids(facts: ChannelFacts) -> dict[tuple[str, str, str], str]:
    ids = _Ids()
    return {
        kind: ids.new(kind[2] or kind[0].rpartition("/")[2] or "message")
        for kind in sorted(facts.messages, key=lambda kind: kind[::-1])
    }


def _message(kind: tuple[str, str, str], shape: MessageShape) -> dict[str, Any]:
    content_type, content_encoding, name = kind
    message: dict[str, Any] = {"summary": "Seen once." if shape.count == 1 else f"Seen {shape.count:,} times."}
    if name:
        message["name"] = name
    if content_type:
        message["contentType"] = content_type
    elif shape.is_json and not shape.is_decoded and shape.payload.count:
        message["contentType"] = "application/json"
    headers = shape.headers.to_json()
    if headers.get("properties") or "additionalProperties" in headers:
        message["headers"] = headers
    payload = _payload(shape)
    if payload:
        message["payload"] = payload
    binding = {"contentEncoding": content_encoding, "messageType": name}
    present = {key: value for key, value in binding.items() if value}
    message["bindings"] = {"amqp": {**present, "bindingVersion": BINDING_VERSION}}
    used = sorted(
        each for each in shape.properties if each not in ("headers", "content_type", "content_encoding", "type")
    )
    if used:
        message["x-properties"] = used
    if shape.example is not None:
        headers_example, payload_example = shape.example
        example = {"headers": headers_example} if headers_example and "headers" in message else {}
        if payload_example not in (None, ""):
            example["payload"] = payload_example
        if example:
            message["examples"] = [example]
    return message


def _payload(shape: MessageShape) -> dict[str, Any]:
    if not shape.payload.count:
        return {}
    if shape.is_json:
        return shape.payload.to_json()
    return {"type": "string"} if shape.is_text else {"type": "string", "format": "binary"}


# --- operations


def _operation(
    action: str, who: Application, facts: OperationFacts, channel: str, messages: Iterable[dict[str, str]]
) -> dict[str, Any]:
    name = f"{who.name} as user {who.user}" if who.user and who.name else who.name or f"user {who.user or 'unknown'}"
    verb = "sends" if action == "send" else "receives"
    operation: dict[str, Any] = {
        "action": action,
        "channel": {"$ref": f"#/channels/{channel}"},
        "title": f"{name} {verb}",
        "summary": f"{verb.capitalize()} {counted(facts.count, 'message')}.",
        "messages": list(messages),
    }
    binding: dict[str, Any] = {"bindingVersion": BINDING_VERSION}
    if action == "send":
        modes = facts.delivery_modes
        if len(modes) == 1 and modes <= {1, 2}:
            binding["deliveryMode"] = next(iter(modes))
        if len(facts.mandatory) == 1:
            binding["mandatory"] = next(iter(facts.mandatory))
        priorities = facts.priorities - {None}
        if len(facts.priorities) == 1 and priorities:
            binding["priority"] = next(iter(priorities))
        binding["timestamp"] = facts.has_timestamp
    elif len(facts.acks) == 1:
        binding["ack"] = next(iter(facts.acks))
    operation["bindings"] = {"amqp": binding}
    operation["x-user"] = who.user or "unknown"
    if who.name:
        operation["x-application"] = who.name
    if facts.asks_for_replies:
        operation["x-reply-to"] = True
    return operation


# --- identifiers


class _Ids:
    """Unique identifiers that are safe in references."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._counts: dict[str, int] = {}

    def new(self, text: str) -> str:
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-")[:MAX_ID] or "unnamed"
        found = plain
        while found in self._used:
            self._counts[plain] = self._counts.get(plain, 1) + 1
            found = f"{plain}-{self._counts[plain]}"
        self._used.add(found)
        return found


def _readable(address: Address, shape: Shape) -> str:
    """Return the name of a channel for use in identifiers."""
    name = "".join(part if isinstance(part, str) else _PARAMETERS[part][0] for part in shape)
    place = "" if address.vhost == "/" else f"{address.vhost}-"
    return f"{place}{name}" if address.is_queue else f"{place}{address.exchange}-{name or 'no-key'}"


def _quoted_braces(text: str) -> str:
    """Escape braces, so that they are not read as parameters."""
    return text.replace("{", "%7B").replace("}", "%7D")


def _quoted(vhost: str) -> str:
    return quote(vhost, safe="", errors="surrogateescape")
