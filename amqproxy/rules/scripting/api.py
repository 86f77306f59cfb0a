"""What a script is written with: a context, a few words for verdicts, and how its functions are found.

A script is Python. Each of its functions that is named for a method is asked about commands of that method:

    from amqproxy.rules.scripting import Command, Context, Verdict, drop, refuse

    def publish(command: Command, context: Context) -> Verdict | None:
        if command.body_size == 0:
            return refuse("an empty message")

`publish` is for basic.publish, and so for all of class basic (`return_` is basic.return, since `return` is a word of
Python's); `queue_declare` is for queue.declare, and so for the others. `command` is asked about all that have no
function of their own. `load(context)` is called once, when the config is loaded. What returns None lets the command
pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec.structs

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import BY_CODE, AccessRefused, Scope, reply_text
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.transitions import Peer
from amqproxy.amqp091.wire import Table
from amqproxy.rules.context import ChannelInfo, Client, CommandContext
from amqproxy.rules.drop import dropped
from amqproxy.rules.verdict import Answer, Close, Insertion, Verdict


class Context:
    """What a function of a script may know besides the command.

    `store` is the session's own and `shared` that of all sessions: dictionaries, empty at first, which the script may
    fill as it likes. What it keeps there is its own to bound.
    """

    __slots__ = ("command_context", "rule", "shared", "store")

    def __init__(
        self,
        rule: str,
        command_context: CommandContext | None = None,
        shared: dict[Any, Any] | None = None,
        store: dict[Any, Any] | None = None,
    ) -> None:
        self.rule = rule
        self.command_context = command_context
        self.shared = {} if shared is None else shared
        self.store = {} if store is None else store

    def _of_command(self) -> CommandContext:
        if self.command_context is None:
            raise AttributeError("while a script is loaded there is no command, nor anything about one")
        return self.command_context

    @property
    def sender(self) -> Peer:
        """Who sent the command: `Peer.CLIENT` or `Peer.SERVER`."""
        return self._of_command().sender

    @property
    def is_from_client(self) -> bool:
        return self._of_command().is_from_client

    @property
    def client(self) -> Client:
        """The client's address, user, vhost, properties, and so on."""
        return self._of_command().client

    @property
    def channel(self) -> ChannelInfo:
        return self._of_command().channel

    @property
    def now(self) -> float:
        """Seconds of a steady clock."""
        return self._of_command().now

    @property
    def time(self) -> float:
        """Seconds since 1970."""
        return self._of_command().time

    def random(self) -> float:
        """A number from 0 up to, and without, 1."""
        return self._of_command().random()


# --- words for verdicts


def change(
    command: Command,
    *,
    properties: Properties | None = None,
    headers: Mapping[str, Any] | None = None,
    body: bytes | str | None = None,
    **fields: Any,
) -> Verdict:
    """The command goes on with other properties, headers or body, and with these fields of its method.

    `change(command, routing_key="audit", headers={"seen": True})`; headers take the place of all that were there.
    """
    method = command.method
    names = dict(method.spoken)
    for name in fields:
        if name not in names:
            raise ValueError(f"{method.name} has no field `{name}`: there are {', '.join(names) or 'none'}")
    if headers is not None:
        old = command.properties if properties is None else properties
        properties = msgspec.structs.replace(old, headers=Table(headers))
    new = msgspec.structs.replace(method, **{names[name]: value for name, value in fields.items()}) if fields else None
    data = body.encode() if isinstance(body, str) else body
    return Verdict(command=command.altered(new, properties, data))


def drop(command: Command, answer: Answer = Answer.ACK) -> Verdict:
    """The command goes no further; the sender of a message receives `answer`, of another command nothing."""
    return dropped(command, answer)


def refuse(text: str = "", code: int = AccessRefused.code, scope: Scope | None = None) -> Verdict:
    """The command's channel is closed, or its connection where the code asks for that, or `scope` does."""
    error = BY_CODE.get(code)
    usual = error.usual_scope if error is not None else Scope.CHANNEL
    return Verdict(command=None, close=Close(scope or usual, code, reply_text(code, text, "ERROR")), is_final=True)


def insert(command: Command, *commands: tuple[Peer, Command]) -> Verdict:
    """The command goes on, and these are sent besides, each to the peer beside it."""
    return Verdict(command=command, insertions=tuple(Insertion(to, each) for to, each in commands))
