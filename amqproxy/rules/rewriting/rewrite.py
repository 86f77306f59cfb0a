"""Change commands on their way: names, logins, arguments, properties, headers, bodies, limits.

The way there and the way back are in one file, though it is a long one: each name must come back as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal

import msgspec
import msgspec.structs

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import AccessRefused, Scope, reply_text
from amqproxy.amqp091.methods import (
    BY_NAME,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    ExchangeDeclare,
    Method,
    QueueDeclare,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.transitions import CLIENT, SENDERS, SERVER, Peer
from amqproxy.amqp091.wire import Table
from amqproxy.rules.context import CommandContext
from amqproxy.rules.matching.match import MatchedPlaces
from amqproxy.rules.matching.operations import ALTERNATE_EXCHANGE, UNKNOWN, dead_letters, texts
from amqproxy.rules.matching.patterns import exact
from amqproxy.rules.resources import Resources
from amqproxy.rules.rewriting import login, name_fields, trace_context
from amqproxy.rules.rewriting.body_edit import BodyEdit
from amqproxy.rules.rewriting.edit import Edit, check_fields, check_properties
from amqproxy.rules.rewriting.name_fields import CLOSES, MESSAGES, NameKind, Rename
from amqproxy.rules.rewriting.renaming import Renaming, UsedNames, put
from amqproxy.rules.rewriting.secret import Secret
from amqproxy.rules.rewriting.tuning import Tuning
from amqproxy.rules.rule import Cacheable, Reversible, Rule, RuleState
from amqproxy.rules.scripting.api import Context
from amqproxy.rules.verdict import Close, Stage, Verdict

Follow = Literal["arguments", "reply_to", "copies", "deaths", "texts"]
EVERYWHERE: tuple[Follow, ...] = ("arguments", "reply_to", "copies", "deaths", "texts")
"""Where names stand, besides the fields of methods: in the arguments of declare, the property reply_to, the headers CC
and BCC, those about dead-lettering, and the texts of closes."""

RECALLED = frozenset({"basic.cancel", "basic.cancel-ok", "basic.credit"})
"""A client's methods about a consumer that it has: by a tag that was changed when the consumer was made, and only if.
"""

_NEVER_EMPTY = {NameKind.QUEUE, NameKind.CONSUMER_TAG, NameKind.USER}
"""Nouns whose empty name is none: the broker is to give one, or the last one is meant."""


def _check_name(value: str | Renaming) -> None:
    if isinstance(value, str):
        Renaming(to=value)


_CHECKS: dict[str, Callable[[Any], None]] = {
    **dict.fromkeys(NameKind, _check_name),
    "properties": check_properties,
    "fields": check_fields,
}
"""Checks of single keys, whose errors are reported with the key."""


class Rewrite(Rule, Cacheable, Reversible, frozen=True, tag="rewrite"):
    """Change a command that goes on; and restore names that it has changed in the commands of the broker.

    A name may be given as such: then it is what every command that matches gets. `both_ways = false` leaves what the
    broker sends unchanged. `follows` are the places besides methods in which names change as well.
    """

    vhost: str | Renaming | None = None
    user: str | Renaming | None = None
    password_file: str = ""
    password_env: str = ""
    exchange: str | Renaming | None = None
    queue: str | Renaming | None = None
    routing_key: str | Renaming | None = None
    consumer_tag: str | Renaming | None = None
    both_ways: bool = True
    follows: tuple[Follow, ...] = EVERYWHERE
    arguments: Edit | None = None
    fields: Edit | None = None
    properties: Edit | None = None
    headers: Edit | None = None
    body: BodyEdit | None = None
    trace_context: bool = False
    client_properties: Edit | None = None
    tune: Tuning | None = None

    def __post_init__(self) -> None:
        if self.password_file and self.password_env:
            raise ValueError("the password is in `password_file` or in `password_env`: name one")
        for key, checks in _CHECKS.items():
            try:
                if (value := getattr(self, key)) is not None:
                    checks(value)
            except ValueError as error:
                raise ValueError(f".{key}: {error}") from None
        if not self._renamings and not self._has_password and not self._edits and self.tune is None:
            raise ValueError("a rewrite that changes nothing: name what it is to change")
        matched = self.matched
        if matched and not matched & self.methods:
            raise ValueError(f"it changes nothing in {', '.join(sorted(matched)[:3])}")

    # --- what it needs, and which methods it is about

    @property
    def places(self) -> MatchedPlaces:
        """`match` selects the commands that are edited; names elsewhere are found by `from`."""
        return MatchedPlaces.OWN

    @property
    def methods(self) -> frozenset[str]:
        return self._methods

    @cached_property
    def _methods(self) -> frozenset[str]:
        found: set[str] = set()
        for name, method in BY_NAME.items():
            nouns = {noun for _, noun in name_fields.FIELDS.get(name, ())}
            if name in MESSAGES and NameKind.ROUTING_KEY in nouns:
                nouns.add(NameKind.QUEUE)  # by way of the default exchange
            if name == "queue.declare" or name == "exchange.declare":
                nouns |= {NameKind.EXCHANGE, NameKind.QUEUE, NameKind.ROUTING_KEY}  # in their arguments
            if CLIENT in SENDERS[name] and name not in RECALLED and nouns & self._renamings.keys():
                found.add(name)
            if self.arguments is not None and "arguments" in method.__struct_fields__:
                found.add(name)
            if self.fields is not None and self.fields.names & {spoken for spoken, _ in method.spoken}:
                found.add(name)
        if self.properties is not None or self.headers is not None or self.body is not None:
            found |= MESSAGES
        if self.trace_context:
            found.add("basic.publish")
        if NameKind.USER in self._renamings or self._has_password or self.client_properties is not None:
            found.add("connection.start-ok")
        if self._has_password:
            found.add("connection.update-secret")
        if self.tune is not None:
            found |= {"connection.tune", "connection.tune-ok"}
        return frozenset(found)

    @property
    def needs(self) -> Stage:
        return self._needs

    @cached_property
    def _needs(self) -> Stage:
        needs = [edit.needs for edit in (*self._edits, self.arguments, self.fields) if isinstance(edit, Edit)]
        if self.body is not None:
            needs.append(Stage.BODY)
        if self.properties is not None or self.headers is not None or self.trace_context or self._is_in_properties:
            needs.append(Stage.HEADER)
        return max(needs, default=Stage.METHOD)

    @property
    def is_constant(self) -> bool:
        edits = [edit for edit in (self.arguments, self.fields, self.client_properties) if edit is not None]
        return (
            self._needs is Stage.METHOD
            and all(edit.is_constant for edit in edits)
            and all(each.is_reversible or self._literals.get(noun) for noun, each in self._renamings.items())
        )

    @property
    def changes_method(self) -> bool:
        return bool(self._renamings) or self.arguments is not None or self.fields is not None

    @property
    def _is_in_properties(self) -> bool:
        """Do names change in the properties of what is published?"""
        if NameKind.QUEUE in self._renamings:
            return "reply_to" in self.follows or "copies" in self.follows
        return NameKind.ROUTING_KEY in self._renamings and "copies" in self.follows

    @cached_property
    def _renamings(self) -> dict[NameKind, Renaming]:
        found = {}
        for noun in NameKind:
            value = getattr(self, noun)
            if value is not None:
                found[noun] = Renaming(to=value) if isinstance(value, str) else value
        return found

    @cached_property
    def _literals(self) -> dict[NameKind, str]:
        """Of each noun, the one name that a command can have of which the match holds, if there is only one."""
        found = {}
        for noun in NameKind:
            patterns = getattr(self.match, noun)
            names = None if patterns is None else exact(patterns)
            if names is not None and len(names) == 1:
                found[noun] = next(iter(names))
        return found

    @property
    def _has_password(self) -> bool:
        return bool(self.password_file or self.password_env)

    @property
    def _edits(self) -> list[Any]:
        all_of_them = (
            self.arguments,
            self.fields,
            self.properties,
            self.headers,
            self.body,
            self.client_properties,
            self.trace_context or None,
        )
        return [edit for edit in all_of_them if edit is not None]

    # --- what it takes from outside, and remembers

    def resolved(self, resources: Resources) -> Rule:
        rule = self if self.body is None else msgspec.structs.replace(self, body=self.body.resolved(resources))
        if self._has_password:
            text = resources.text(self.password_file) if self.password_file else resources.variable(self.password_env)
            password = text.rstrip("\r\n")
            if not password:
                raise ValueError(f"the password in {self.password_file or self.password_env} is empty")
            if rule is self:
                rule = msgspec.structs.replace(self)
            rule.__dict__["password"] = Secret(password)
        return rule

    @property
    def _password(self) -> Secret | None:
        if not self._has_password:
            return None
        password = self.__dict__.get("password")
        if not isinstance(password, Secret):
            raise ValueError("the password has not been read")
        return password

    def begin_session(self) -> dict[NameKind, UsedNames]:
        return {noun: UsedNames() for noun in self._renamings}

    # --- there

    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        command = context.command
        method: Method = command.method
        if isinstance(method, ConnectionTuneOk) and self.tune is not None:
            close = self.tune.objection(method)
            if close is not None:
                return Verdict(command=None, close=close, is_final=True)
            return Verdict(command=_altered(command, self.tune.answered(method)))
        if context.is_from_client and self._escapes(method):
            code = AccessRefused.code
            text = f"messages would go to the default exchange with their own keys, by rule '{self.name}'"
            close = Close(Scope.CHANNEL, code, reply_text(code, text))
            return Verdict(command=None, close=close, is_final=True)
        new_method = self._changed_method(method, context, memory)
        properties = body = None
        if self._needs >= Stage.HEADER and command.header is not None:
            properties = self._changed_properties(command.properties, method, context, memory)
            if self.body is not None and command.is_complete:
                script_context = Context(self.name, context)
                body = self.body.applied(command.body, context, script_context)
        return Verdict(command=_altered(command, new_method, properties, body))

    def _escapes(self, method: Method) -> bool:
        """Would messages reach queues by routing keys that were not changed, where clients are to have their own?"""
        queue = self._renamings.get(NameKind.QUEUE)
        if queue is None or not queue.separates:
            return False
        if isinstance(method, QueueDeclare) and not method.passive:
            return any(not exchange and key is UNKNOWN for exchange, key in dead_letters(method))
        return isinstance(method, ExchangeDeclare) and "" in texts(method.arguments, ALTERNATE_EXCHANGE)

    def _changed_method(self, method: Method, context: CommandContext, memory: RuleState) -> Method:
        if isinstance(method, ConnectionStartOk):
            return self._logged_in(method, context, memory)
        if isinstance(method, ConnectionTune):
            return method if self.tune is None else self.tune.offered(method)
        if isinstance(method, ConnectionUpdateSecret) and self._password is not None:
            return msgspec.structs.replace(method, new_secret=self._password.reveal().encode())
        if context.is_from_client and self._renamings and method.name not in RECALLED:
            method = name_fields.renamed(method, self._there(context, memory), in_arguments="arguments" in self.follows)
        if self.arguments is not None and hasattr(method, "arguments"):
            arguments = self.arguments.of_table(method.arguments, context)
            if arguments is not method.arguments:
                method = msgspec.structs.replace(method, arguments=arguments)
        if self.fields is not None:
            method = self.fields.of_fields(method, context)
        return method

    def _logged_in(self, start: ConnectionStartOk, context: CommandContext, memory: RuleState) -> ConnectionStartOk:
        if NameKind.USER in self._renamings or self._has_password:
            rename, renaming = self._there(context, memory), self._renamings.get(NameKind.USER)
            user = rename(NameKind.USER, context.client.user) if context.client.user else None
            if user is None and renaming is not None and renaming.source is None and renaming.to is not None:
                user = renaming.new("", context)
            start = login.rewritten(start, lambda name: rename(NameKind.USER, name), user, self._password)
        if self.client_properties is not None:
            properties = self.client_properties.of_table(start.client_properties, context)
            start = msgspec.structs.replace(start, client_properties=properties)
        return start

    def _changed_properties(
        self, old: Properties, method: Method, context: CommandContext, memory: RuleState
    ) -> Properties:
        properties = old
        if context.is_from_client and self._is_in_properties:
            properties = name_fields.renamed_properties(
                properties,
                getattr(method, "exchange", ""),
                self._there(context, memory),
                reply_to="reply_to" in self.follows,
                copies="copies" in self.follows,
                deaths="deaths" in self.follows,
            )
        if self.properties is not None:
            properties = self.properties.of_properties(properties, context)
        headers = _NO_HEADERS if properties.headers is None else properties.headers
        if self.headers is not None:
            headers = self.headers.of_table(headers, context)
        if self.trace_context and method.name == "basic.publish":
            headers = trace_context.begun(headers, context.random)
        if headers is not properties.headers and headers is not _NO_HEADERS:
            properties = msgspec.structs.replace(properties, headers=headers)
        return properties

    def _there(self, context: CommandContext, memory: RuleState) -> Rename:
        """The broker's name for the client's."""

        def rename(noun: NameKind, name: str) -> str:
            used: UsedNames | None = memory.own.get(noun)
            if used is None or (not name and noun in _NEVER_EMPTY):
                return name
            plain = used.plain.get(name)
            if plain is not None:
                return plain
            renaming = self._renamings[noun]
            new = renaming.new(name, context)
            is_reversible = renaming.old(new, context, self._literals.get(noun)) == name
            if is_reversible:
                used.forget(new)
            if noun is NameKind.CONSUMER_TAG or not is_reversible:
                used.note(name, new)
            else:
                put(used.plain, name, new)
            return new

        return rename

    # --- and back

    def restores(self, sender: Peer) -> frozenset[str]:
        if sender is CLIENT:
            return RECALLED if NameKind.CONSUMER_TAG in self._renamings else frozenset()
        return self._restored_methods if self.both_ways else frozenset()

    @cached_property
    def _restored_methods(self) -> frozenset[str]:
        found = set()
        for name, places in name_fields.FIELDS.items():
            nouns = {noun for _, noun in places}
            if name in MESSAGES:
                nouns.add(NameKind.QUEUE)
            if SERVER in SENDERS[name] and nouns & self._renamings.keys():
                found.add(name)
        if "texts" in self.follows and self._renamings.keys():
            found |= CLOSES
        return frozenset(found)

    def restores_alike(self, sender: Peer) -> bool:
        return self.is_constant and sender is SERVER  # a tag means another consumer once there is one

    @property
    def restoring_needs(self) -> Stage:
        return Stage.HEADER if self.both_ways and self._is_back_in_properties else Stage.METHOD

    @cached_property
    def _is_back_in_properties(self) -> bool:
        nouns = self._renamings.keys()
        return (
            (NameKind.QUEUE in nouns and "reply_to" in self.follows)
            or (bool(nouns & {NameKind.QUEUE, NameKind.ROUTING_KEY}) and "copies" in self.follows)
            or (bool(nouns & {NameKind.EXCHANGE, NameKind.QUEUE, NameKind.ROUTING_KEY}) and "deaths" in self.follows)
        )

    def restore(self, context: CommandContext, memory: RuleState) -> Verdict:
        command = context.command
        method: Any = command.method
        if context.is_from_client:
            new_tag = memory.own[NameKind.CONSUMER_TAG].new(method.consumer_tag)
            if new_tag is None or new_tag == method.consumer_tag:
                return Verdict(command=command)
            return Verdict(command=command.altered(msgspec.structs.replace(method, consumer_tag=new_tag)))
        rename = self._back(context, memory)
        if method.name in CLOSES:
            text = name_fields.renamed_text(method.reply_text, rename)
            new = method if text == method.reply_text else msgspec.structs.replace(method, reply_text=text)
            return Verdict(command=_altered(command, new))
        new = name_fields.renamed(method, rename, is_back=True)
        properties = None
        if command.header is not None and self._is_back_in_properties and self._may_bear_names(command):
            properties = name_fields.renamed_properties(
                command.properties,
                getattr(new, "exchange", ""),
                rename,
                reply_to="reply_to" in self.follows,
                copies="copies" in self.follows,
                deaths="deaths" in self.follows,
            )
        return Verdict(command=_altered(command, new, properties))

    def _may_bear_names(self, command: Command) -> bool:
        """Can the header name anything? Most do not, which shows without decoding."""
        if NameKind.QUEUE in self._renamings or len(command.frames) < 2:
            return True
        header = command.frames[1].payload
        return b"-death" in header or b"CC" in header

    def _back(self, context: CommandContext, memory: RuleState) -> Rename:
        """The client's name for the broker's."""

        def rename(noun: NameKind, new: str) -> str:
            used: UsedNames | None = memory.own.get(noun)
            if used is None:
                return new
            old = used.restored.get(new)
            if old is None:
                old = used.old(new)
                if old is None:
                    old = self._renamings[noun].old(new, context, self._literals.get(noun))
                put(used.restored, new, old)
            return old

        return rename


_NO_HEADERS = Table()


def _altered(
    command: Command, method: Method, properties: Properties | None = None, body: bytes | None = None
) -> Command:
    """The command with what has changed of it; the very same, if nothing has."""
    new_method = None if method is command.method or method == command.method else method
    new_properties = None if properties is None or properties is command.properties else properties
    new_body = None if body is None or body == command.body else body
    if new_properties is not None and new_properties == command.properties:
        new_properties = None
    if new_method is None and new_properties is None and new_body is None:
        return command
    return command.altered(new_method, new_properties, new_body)
