"""Held commands, as JSON lists them."""

from __future__ import annotations

import base64
from typing import Any, Literal

import msgspec

from amqproxy.amqp091.transitions import Peer
from amqproxy.proxy.interception.waiting_command import WaitingCommand
from amqproxy.taps.record import arguments, json_mapping


class HeldCommand(msgspec.Struct, rename={"sender": "from"}, omit_defaults=True, kw_only=True):
    """A held command in JSON. `since` and `until` are seconds since 1970; `body` may be an excerpt of `size` bytes.

    `will` is the effect of a release by `pass`: the later rules have been evaluated, too. The fields of the command
    have the same names as in records.
    """

    session: int
    number: int
    connection: str
    rule: str
    since: float
    until: float
    on_timeout: Literal["pass", "refuse"]
    will: Literal["pass", "go no further"]
    sender: str
    channel: int
    method: str
    arguments: dict[str, Any]
    properties: dict[str, Any] | None = None
    size: int | None = None
    body: Any = None


def held_command(
    waiting: WaitingCommand,
    sender: Peer,
    *,
    session: int,
    connection: str,
    ahead: float,
    excerpt: int,
) -> HeldCommand:
    """Describe a held command, with `excerpt` bytes of its body.

    `ahead` is the time of day minus the sessions' clock, in seconds.
    """
    hold = waiting.hold
    assert hold is not None
    command = waiting.verdict.shown or waiting.verdict.command or waiting.original
    held = HeldCommand(
        session=session,
        number=waiting.number,
        connection=connection,
        rule=hold.name,
        since=waiting.since + ahead,
        until=waiting.until + ahead,
        on_timeout="pass" if hold.passes_at_timeout else "refuse",
        will="go no further" if waiting.verdict.command is None else "pass",
        sender=str(sender),
        channel=command.channel,
        method=command.method.name,
        arguments=arguments(command.method),
    )
    if command.header is not None:
        held.properties = json_mapping(command.properties.present())
        held.size = len(command.body)
        held.body = shown_body(command.body, excerpt)
    return held


def shown_body(body: bytes, excerpt: int) -> Any:
    """Return the first `excerpt` bytes of a body: as text if they are UTF-8, else as `{"base64": "…"}`."""
    start = body[:excerpt]
    try:
        return start.decode()
    except UnicodeDecodeError as error:
        if len(start) < len(body) and error.reason == "unexpected end of data" and error.start:
            return start[: error.start].decode()
        return {"base64": base64.b64encode(start).decode()}
