"""API of scripts: the context of a command, verdict functions, and the naming of a script's functions.

A script is Python. A function that is named for a method is called for each command with that method:

    from amqproxy.rules.scripting import Command, Context, Verdict, drop, refuse

    def publish(command: Command, context: Context) -> Verdict | None:
        if command.body_size == 0:
            return refuse("an empty message")

`publish` handles basic.publish, and likewise for all of class basic (`return_` is basic.return, since `return` is a
keyword of Python); `queue_declare` handles queue.declare, and likewise for the other classes. `command` handles all
methods without a function of their own. `load(context)` is called once, when the configuration is loaded. A function
that returns `None` passes the command.
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
    """Facts for a script's function besides the command.

    `store` belongs to the session and `shared` to all sessions: initially empty dictionaries for the script, which must
    bound what it keeps there.
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
            raise AttributeError("there is no command while a script is loaded")
        return self.command_context

    @property
    def sender(self) -> Peer:
        """Sender of the command: `Peer.CLIENT` or `Peer.SERVER`."""
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
        """Seconds of a monotonic clock."""
        return self._of_command().now

    @property
    def time(self) -> float:
        """Seconds since 1970."""
        return self._of_command().time

    def random(self) -> float:
        """Return a random number in [0, 1)."""
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
    """Forward the command with other properties, headers or body, and with these fields of its method.

    `change(command, routing_key="audit", headers={"seen": True})`; the headers replace all headers of the message.
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
    """Drop the command; the sender of a message receives `answer`, the sender of another command nothing."""
    return dropped(command, answer)


def refuse(text: str = "", code: int = AccessRefused.code, scope: Scope | None = None) -> Verdict:
    """Close the command's channel, or its connection if the code or `scope` requires it."""
    error = BY_CODE.get(code)
    usual = error.usual_scope if error is not None else Scope.CHANNEL
    return Verdict(command=None, close=Close(scope or usual, code, reply_text(code, text, "ERROR")), is_final=True)


def insert(command: Command, *commands: tuple[Peer, Command]) -> Verdict:
    """Forward the command, and send these commands as well, each to its peer."""
    return Verdict(command=command, insertions=tuple(Insertion(to, each) for to, each in commands))
