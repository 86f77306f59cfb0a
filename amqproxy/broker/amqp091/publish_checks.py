"""Checks of a publish's properties, and the changes made to them before the message is routed."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from amqproxy.amqp091.errors import InternalError, PreconditionFailed, ProtocolError
from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Array, Table
from amqproxy.broker.amqp091 import argument_checks
from amqproxy.broker.arguments import TYPE_NAMES, field
from amqproxy.broker.message import MAX_EXPIRATION, sorted_fields

if TYPE_CHECKING:
    from amqproxy.broker.access.users import User
    from amqproxy.rabbitmq.profile import Profile

_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)


def properties_of(header: Frame) -> Properties:
    """Return the properties of a content header; raise 541, as RabbitMQ does, if they are malformed."""
    try:
        properties: Properties = header.header.properties
        if properties.headers is not None:
            argument_checks.check_arguments(properties.headers)
    except ProtocolError as error:
        raise InternalError("", offset=error.offset) from None
    return properties


def checked(properties: Properties, user: User, profile: Profile) -> Properties:
    """Return the properties that consumers see; raise 406 for another user's user-id, an invalid expiration, or an
    unknown delivery mode.
    """
    if properties.user_id is not None and properties.user_id != user.name and "impersonator" not in user.tags:
        raise PreconditionFailed(
            f"user_id property set to '{properties.user_id}' but authenticated user was '{user.name}'"
        )
    if properties.expiration is not None:
        fault = _fault_of_expiration(properties.expiration)
        if fault:
            raise PreconditionFailed(f"invalid expiration '{properties.expiration}': {fault}")
    if profile.checks_delivery_mode and properties.delivery_mode not in (None, 1, 2):
        raise PreconditionFailed(f"invalid message: {{delivery_mode_unknown,{properties.delivery_mode}}}")
    expiration = properties.expiration
    if expiration is not None and profile.rewrites_expiration and expiration != str(int(expiration)):
        properties = msgspec.structs.replace(properties, expiration=str(int(expiration)))
    if profile.sorts_headers and properties.headers is not None:
        fields = properties.headers.fields
        if any(one.name >= other.name for one, other in pairwise(fields)):
            properties = msgspec.structs.replace(properties, headers=Table(sorted_fields(fields)))
    return properties


def _fault_of_expiration(text: str) -> str:
    number = _INTEGER.match(text)
    if number is None:
        return "no_integer"
    rest = text[number.end() :]
    value = int(number[0])
    if rest:
        return f'{{leftover_string,"{rest}"}}'
    if value < 0:
        return f"{{value_negative,{value}}}"
    return f"{{value_too_large,{value}}}" if value > MAX_EXPIRATION else ""


def more_keys(headers: Table) -> tuple[str, ...]:
    """Return the routing keys that the CC and BCC headers add; raise 406 if one of them is not an array."""
    keys: list[str] = []
    for name in ("CC", "BCC"):
        found = field(headers, name)
        if found is None:
            continue
        if not isinstance(found.value, Array):
            kind = TYPE_NAMES[found.type]
            raise PreconditionFailed(f'invalid message: {{unacceptable_type_in_header,"{name}",{kind}}}')
        keys += [item.value for item in found.value.items if item.type == "S"]
    return tuple(keys)


def without_bcc(properties: Properties) -> Properties:
    """Return the properties without the BCC header, as receivers see them."""
    assert properties.headers is not None
    kept = Table([each for each in properties.headers.fields if each.name != "BCC"])
    return msgspec.structs.replace(properties, headers=kept)
