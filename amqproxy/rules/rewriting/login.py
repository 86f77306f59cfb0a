"""Rewrites a client's login to the broker: the response in connection.start-ok, with another name and password."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.login import text_of_login
from amqproxy.amqp091.methods import ConnectionStartOk
from amqproxy.amqp091.wire import Field, Table
from amqproxy.rules.rewriting.secret import Secret

_PLAIN, _AMQPLAIN = "PLAIN", "AMQPLAIN"


def rewritten(
    start: ConnectionStartOk, rename: Callable[[str], str], user: str | None, password: Secret | None
) -> ConnectionStartOk:
    """Return start-ok with the same mechanism, another name, and another password if one is given.

    `rename` maps the client's name to the new one; `user` is the new name if the client sent none, `None` if it is
    unknown. A response without name and password is replaced if both are known; otherwise the broker gets it unchanged
    and refuses it.
    """
    if start.mechanism == _PLAIN:
        parts = start.response.split(b"\0")
        if len(parts) == 3:
            name, secret = _encoded(rename(_text(parts[1]))), _encoded(password.reveal()) if password else parts[2]
            return replace(start, response=b"\0".join((parts[0], name, secret)))
    elif start.mechanism == _AMQPLAIN:
        response = _amqplain(start.response, rename, password)
        if response is not None:
            return replace(start, response=response)
    if user is None or password is None:
        return start
    return replace(start, mechanism=_PLAIN, response=_encoded(f"\0{user}\0{password.reveal()}"))


def _amqplain(response: bytes, rename: Callable[[str], str], password: Secret | None) -> bytes | None:
    """Return the AMQPLAIN table with the changed entries in place; `None` if it lacks one."""
    try:
        table = Table.from_octets(response)
    except ProtocolError:
        return None
    if text_of_login(table.get("LOGIN")) is None or text_of_login(table.get("PASSWORD")) is None:
        return None
    fields = []
    for field in table.fields:
        name = text_of_login(field.value) if field.name == "LOGIN" else None
        if name is not None:
            fields.append(Field("LOGIN", "S", rename(name)))
        elif field.name == "PASSWORD" and password is not None:
            fields.append(Field("PASSWORD", "S", password.reveal()))
        else:
            fields.append(field)
    return Table(fields).octets


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
