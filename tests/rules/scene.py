"""Rules as in a config, commands as they are received, and what rules decide about them."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import BODY, HEADER, Frame, encode_frame, encode_method
from amqproxy.amqp091.methods import Method
from amqproxy.amqp091.properties import NO_PROPERTIES, ContentHeader, Properties
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.rules.actions import AnyRule
from amqproxy.rules.context import ChannelInfo, Client, CommandContext
from amqproxy.rules.rule import Rule, RuleState, initial_state
from amqproxy.rules.verdict import Stage, Verdict

GUEST = Client(
    session=7,
    user="guest",
    vhost="/",
    address="10.0.0.7",
    port=4711,
    listener="127.0.0.1:5673",
    upstream="127.0.0.1:5672",
    properties={"product": "pika", "connection_name": "orders-1"},
)


class Shelf:
    """What rules take from outside of the config."""

    def __init__(
        self,
        texts: Mapping[str, str] | None = None,
        variables: Mapping[str, str] | None = None,
        functions: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        self._texts, self._variables, self._functions = texts or {}, variables or {}, functions or {}

    def text(self, file: str) -> str:
        return _found(self._texts, file)

    def variable(self, name: str) -> str:
        return _found(self._variables, name)

    def function(self, name: str) -> Callable[..., Any]:
        return _found(self._functions, name)


def _found(things: Mapping[str, Any], name: str) -> Any:
    if name not in things:
        raise ValueError(f"there is no {name}")
    return things[name]


def rule(text: str, shelf: Shelf | None = None, /, **keys: Any) -> Any:
    """The rule of this TOML, and of these keys; named "r" where it is not."""
    data = {"name": "r", **tomllib.loads(text), **keys}
    made: Rule = msgspec.convert(data, AnyRule)
    return made.resolved(shelf or Shelf())


def from_client(
    method: Method,
    properties: Properties = NO_PROPERTIES,
    body: bytes = b"",
    *,
    sender: Peer = CLIENT,
    number: int = 1,
    stage: Stage = Stage.BODY,
    client: Client = GUEST,
    **more: Any,
) -> CommandContext:
    """The context of a client's command, of which as much has been received as `stage`."""
    channel = 0 if method.name.startswith("connection.") else number
    frames = [Frame(encode_method(channel, method))]
    if method.carries_content and stage > Stage.METHOD:
        frames.append(Frame(encode_frame(HEADER, channel, ContentHeader(len(body), properties).encode())))
        if body and stage > Stage.HEADER:
            frames.append(Frame(encode_frame(BODY, channel, body)))
    facts = ChannelInfo(number=channel, is_confirming=more.pop("is_confirming", False))
    return CommandContext(sender=sender, command=Command.received(frames), client=client, channel=facts, **more)


def from_server(
    method: Method, properties: Properties = NO_PROPERTIES, body: bytes = b"", **more: Any
) -> CommandContext:
    """The same for a command of the broker."""
    return from_client(method, properties, body, sender=SERVER, **more)


def memory(of: Rule) -> RuleState:
    return initial_state(of)


def decided(of: Rule, context: CommandContext, remembered: RuleState | None = None) -> Verdict:
    """What the rule makes of it; it must have asked for what it reads."""
    return of.decide(context, remembered or memory(of))


def left(of: Rule, context: CommandContext, remembered: RuleState | None = None) -> Command:
    """The command that goes on."""
    command = decided(of, context, remembered).command
    assert command is not None
    return command


def passes(of: Rule, context: CommandContext) -> bool:
    """Does it leave the command alone?"""
    return decided(of, context) == Verdict(command=context.command)
