"""Views of all AMQP 0-10 controls and commands that have a 0-9-1 counterpart.

Messages are in `message_views`. Without a counterpart are the numbering of commands, completion, credit other than
prefetch, distributed transactions, and the classes file and stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from amqproxy.amqp010 import commands, controls
from amqproxy.amqp010.domains import AcceptMode, CreditUnit
from amqproxy.amqp010.errors import MAX_DESCRIPTION
from amqproxy.amqp010.methods import Method as Method010
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp091 import methods
from amqproxy.amqp091.errors import cut_reply_text
from amqproxy.amqp091.methods import Method
from amqproxy.amqp091.wire import Table
from amqproxy.conversion.amqp010.method_shape import MethodShape, Place, readable, table, words
from amqproxy.conversion.inexpressible import Inexpressible
from amqproxy.conversion.view_fields import BOUND_KEY, BOUND_QUEUE, QueueQueryOk
from amqproxy.peer import CLIENT, SERVER, Peer

INFINITE = 0xFFFF_FFFF
"""Unlimited credit."""

MAX_PREFETCH = 65_535

DEFAULT_VHOST = "/"

_NO_WAIT = {"no_wait": True}
"""A completion is not an answer that rules see."""


# --- fields that are not alike


def _no_ack() -> Place:
    return Place(
        lambda subscribe: subscribe.accept_mode == AcceptMode.NONE,
        lambda subscribe, value: {"accept_mode": AcceptMode.NONE if value else AcceptMode.EXPLICIT},
    )


def _last_tag() -> Place:
    def last(settlement: Any) -> int:
        ranges = (settlement.transfers or SequenceSet()).ranges
        return int(ranges[-1][1]) if ranges else 0

    return Place(last)


def _is_multiple() -> Place:
    return Place(lambda settlement: (settlement.transfers or SequenceSet()).count > 1)


def _prefetch() -> Place:
    """Return the place of credit in messages; 0 if unlimited, or above the 0-9-1 maximum."""

    def read(flow: commands.MessageFlow) -> int:
        value = flow.value or 0
        return value if value <= MAX_PREFETCH else 0

    def written(flow: commands.MessageFlow, value: int) -> Mapping[str, Any]:
        return {"value": value or INFINITE}

    return Place(read, written)


def _description() -> Place:
    """Return the place of an exception's text, which may be longer than that of a close."""

    def written(exception: Any, text: str) -> Mapping[str, Any]:
        if len(text.encode("utf-8", "surrogateescape")) > MAX_DESCRIPTION:
            raise Inexpressible("a description is limited to 65,535 bytes")
        return {"description": text}

    return Place(lambda exception: cut_reply_text(exception.description or ""), written)


def _virtual_host() -> Place:
    """Return the place of the virtual host; an empty name is the default one, as in 0-10 brokers."""
    return Place(lambda open_: open_.virtual_host or DEFAULT_VHOST, lambda open_, value: {"virtual_host": value})


def _limit(field: str) -> Place:
    """Return the place of a limit; 0 if 0-10 leaves it out."""
    return Place(lambda tune: getattr(tune, field) or 0, lambda tune, value: {field: value})


def _heartbeat_offered() -> Place:
    def written(tune: controls.ConnectionTune, value: int) -> Mapping[str, Any]:
        changes: dict[str, Any] = {"heartbeat_max": value}
        if (tune.heartbeat_min or 0) > value:
            changes["heartbeat_min"] = value
        return changes

    return Place(lambda tune: tune.heartbeat_max or 0, written)


def _result_field(field: str) -> Place:
    def written(result: commands.ExecutionResult, value: Any) -> Mapping[str, Any]:
        found: Any = result.value
        return {"value": replace(found, **{field: value})}

    return Place(lambda result: getattr(result.value, field), written)


def _bound_names() -> Place:
    """Return the place of the other names in exchange.bound, as arguments, which a passive declare lacks."""

    def read(bound: commands.ExchangeBound) -> Table:
        names = {BOUND_QUEUE: bound.queue, BOUND_KEY: bound.binding_key}
        return Table({name: value for name, value in names.items() if value is not None})

    def written(bound: commands.ExchangeBound, value: Table) -> Mapping[str, Any]:
        if set(value) - {BOUND_QUEUE, BOUND_KEY}:
            raise Inexpressible("exchange.bound has no arguments in AMQP 0-10")
        return {"queue": value.get(BOUND_QUEUE), "binding_key": value.get(BOUND_KEY)}

    return Place(read, written)


# --- the tables

_LOGIN_ANSWER: dict[str, Place | str] = {
    "client_properties": table("client_properties"),
    "mechanism": "mechanism",
    "response": "response",
    "locale": "locale",
}
_CLOSE = {"reply_code": "reply_code", "reply_text": "reply_text"}
_SETTLED = {"delivery_tag": _last_tag(), "multiple": _is_multiple()}
_QUERIED_EXCHANGE = {"passive": True, "type": "", "no_wait": True}

_OF_BOTH: dict[type[Method010], MethodShape] = {
    controls.ConnectionClose: MethodShape(methods.ConnectionClose, _CLOSE),
    controls.ConnectionCloseOk: MethodShape(methods.ConnectionCloseOk),
    controls.SessionDetach: MethodShape(methods.ChannelClose),
    controls.SessionDetached: MethodShape(methods.ChannelCloseOk),
    commands.MessageAccept: MethodShape(methods.BasicAck, _SETTLED),
    commands.MessageRelease: MethodShape(methods.BasicNack, _SETTLED),
}

_OF_CLIENT: dict[type[Method010], MethodShape] = {
    controls.ConnectionStartOk: MethodShape(methods.ConnectionStartOk, _LOGIN_ANSWER),
    controls.ConnectionSecureOk: MethodShape(methods.ConnectionSecureOk, {"response": "response"}),
    controls.ConnectionTuneOk: MethodShape(
        methods.ConnectionTuneOk,
        {
            "channel_max": _limit("channel_max"),
            "frame_max": _limit("max_frame_size"),
            "heartbeat": readable("heartbeat"),
        },
    ),
    controls.ConnectionOpen: MethodShape(methods.ConnectionOpen, {"virtual_host": _virtual_host()}),
    controls.SessionAttach: MethodShape(methods.ChannelOpen),
    commands.MessageReject: MethodShape(methods.BasicReject, {"delivery_tag": _last_tag()}, {"requeue": False}),
    commands.MessageSubscribe: MethodShape(
        methods.BasicConsume,
        {
            "queue": "queue",
            "consumer_tag": "destination",
            "no_ack": _no_ack(),
            "exclusive": "exclusive",
            "arguments": table("arguments"),
        },
        _NO_WAIT,
    ),
    commands.MessageCancel: MethodShape(methods.BasicCancel, {"consumer_tag": "destination"}, _NO_WAIT),
    commands.MessageFlow: MethodShape(methods.BasicQos, {"prefetch_count": _prefetch()}),
    commands.TxSelect: MethodShape(methods.TxSelect),
    commands.TxCommit: MethodShape(methods.TxCommit),
    commands.TxRollback: MethodShape(methods.TxRollback),
    commands.ExchangeDeclare: MethodShape(
        methods.ExchangeDeclare,
        {
            "exchange": "exchange",
            "type": "type",
            "passive": "passive",
            "durable": "durable",
            "auto_delete": "auto_delete",
            "arguments": table("arguments", "alternate-exchange"),
        },
        _NO_WAIT,
    ),
    commands.ExchangeDelete: MethodShape(
        methods.ExchangeDelete, {"exchange": "exchange", "if_unused": "if_unused"}, _NO_WAIT
    ),
    commands.ExchangeQuery: MethodShape(methods.ExchangeDeclare, {"exchange": "name_"}, _QUERIED_EXCHANGE),
    commands.ExchangeBound: MethodShape(
        methods.ExchangeDeclare, {"exchange": "exchange", "arguments": _bound_names()}, _QUERIED_EXCHANGE
    ),
    commands.ExchangeBind: MethodShape(
        methods.QueueBind,
        {"queue": "queue", "exchange": "exchange", "routing_key": "binding_key", "arguments": table("arguments")},
        _NO_WAIT,
    ),
    commands.ExchangeUnbind: MethodShape(
        methods.QueueUnbind, {"queue": "queue", "exchange": "exchange", "routing_key": "binding_key"}
    ),
    commands.QueueDeclare: MethodShape(
        methods.QueueDeclare,
        {
            "queue": "queue",
            "passive": "passive",
            "durable": "durable",
            "exclusive": "exclusive",
            "auto_delete": "auto_delete",
            "arguments": table("arguments", "x-dead-letter-exchange"),
        },
        _NO_WAIT,
    ),
    commands.QueueDelete: MethodShape(
        methods.QueueDelete, {"queue": "queue", "if_unused": "if_unused", "if_empty": "if_empty"}
    ),
    commands.QueuePurge: MethodShape(methods.QueuePurge, {"queue": "queue"}, _NO_WAIT),
    commands.QueueQuery: MethodShape(methods.QueueDeclare, {"queue": "queue"}, {"passive": True, "no_wait": True}),
}

_OF_SERVER: dict[type[Method010], MethodShape] = {
    controls.ConnectionStart: MethodShape(
        methods.ConnectionStart,
        {
            "server_properties": table("server_properties"),
            "mechanisms": words("mechanisms"),
            "locales": words("locales"),
        },
        {"version_major": 0, "version_minor": 10},
    ),
    controls.ConnectionSecure: MethodShape(methods.ConnectionSecure, {"challenge": "challenge"}),
    controls.ConnectionTune: MethodShape(
        methods.ConnectionTune,
        {
            "channel_max": _limit("channel_max"),
            "frame_max": _limit("max_frame_size"),
            "heartbeat": _heartbeat_offered(),
        },
    ),
    controls.ConnectionOpenOk: MethodShape(methods.ConnectionOpenOk),
    controls.SessionAttached: MethodShape(methods.ChannelOpenOk),
    commands.MessageReject: MethodShape(methods.BasicNack, _SETTLED, {"requeue": False}),
    commands.ExecutionException: MethodShape(
        methods.ChannelClose, {"reply_code": "error_code", "reply_text": _description()}
    ),
    commands.ExecutionResult: MethodShape(
        QueueQueryOk,
        {
            "alternate_exchange": _result_field("alternate_exchange"),
            "queue": _result_field("queue"),
            "message_count": _result_field("message_count"),
            "consumer_count": _result_field("subscriber_count"),
        },
    ),
}

SHAPES: Mapping[Peer, Mapping[type[Method010], MethodShape]] = {
    CLIENT: {**_OF_BOTH, **_OF_CLIENT},
    SERVER: {**_OF_BOTH, **_OF_SERVER},
}
"""Shapes by sender, and control or command."""


def shape_of(sender: Peer, method: Method010) -> MethodShape | None:
    """Return the shape of this particular control or command; `None` if it has no counterpart."""
    if isinstance(method, commands.MessageFlow) and method.unit != CreditUnit.MESSAGE:
        return None
    if isinstance(method, commands.ExecutionResult) and not hasattr(method.value, "subscriber_count"):
        return None
    return SHAPES[sender].get(type(method))


def method_view(sender: Peer, method: Method010) -> Method | None:
    """Return the 0-9-1 method of a control or command of `sender`, if it has a counterpart."""
    shape = shape_of(sender, method)
    return None if shape is None else shape.view(method)
