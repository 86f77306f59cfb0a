"""The `rewrite` action: changes names, logins, arguments, properties, headers, bodies and limits."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import msgspec
import msgspec.structs

from amqproxy.amqp091.errors import AccessRefused, Scope, reply_text
from amqproxy.amqp091.methods import (
    BY_NAME,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    Method,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.transitions import SERVER, Peer
from amqproxy.amqp091.wire import Table
from amqproxy.rules.context import CommandContext
from amqproxy.rules.matching.match import MatchedPlaces
from amqproxy.rules.matching.patterns import exact
from amqproxy.rules.resources import Resources
from amqproxy.rules.rewriting import login, trace_context
from amqproxy.rules.rewriting.body_edit import BodyEdit
from amqproxy.rules.rewriting.edit import Edit, check_fields, check_properties
from amqproxy.rules.rewriting.name_fields import MESSAGES, NameKind
from amqproxy.rules.rewriting.name_translation import EVERYWHERE, Follow, NameTranslation, SessionNames, with_changes
from amqproxy.rules.rewriting.renaming import Renaming
from amqproxy.rules.rewriting.secret import Secret
from amqproxy.rules.rewriting.tuning import Tuning
from amqproxy.rules.rule import Cacheable, Reversible, Rule, RuleState
from amqproxy.rules.scripting.api import Context
from amqproxy.rules.verdict import Close, Stage, Verdict


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
    """Change a command, and restore the changed names in the broker's commands.

    A plain text as a name gives every matching command that name. `both_ways = false` leaves the broker's commands
    unchanged. `follows` are the places besides methods in which names change as well.
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
            raise ValueError("`password_file` and `password_env` exclude each other: name one")
        for key, checks in _CHECKS.items():
            try:
                if (value := getattr(self, key)) is not None:
                    checks(value)
            except ValueError as error:
                raise ValueError(f".{key}: {error}") from None
        if not self._names.renamings and not self._has_password and not self._edits and self.tune is None:
            raise ValueError("this rule changes nothing: name a key to change")
        matched = self.matched
        if matched and not matched & self.methods:
            raise ValueError(f"it changes nothing in {', '.join(sorted(matched)[:3])}")

    # --- what it needs, and which methods it is about

    @property
    def places(self) -> MatchedPlaces:
        """`match` selects the commands to edit; names in other places are selected by `from`."""
        return MatchedPlaces.OWN

    @property
    def methods(self) -> frozenset[str]:
        return self._methods

    @cached_property
    def _methods(self) -> frozenset[str]:
        found: set[str] = set()
        for name, method in BY_NAME.items():
            if self._names.is_about(name):
                found.add(name)
            if self.arguments is not None and "arguments" in method.__struct_fields__:
                found.add(name)
            if self.fields is not None and self.fields.names & {spoken for spoken, _ in method.spoken}:
                found.add(name)
        if self.properties is not None or self.headers is not None or self.body is not None:
            found |= MESSAGES
        if self.trace_context:
            found.add("basic.publish")
        if NameKind.USER in self._names.renamings or self._has_password or self.client_properties is not None:
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
        if self.properties is not None or self.headers is not None or self.trace_context:
            needs.append(Stage.HEADER)
        if self._names.is_in_properties:
            needs.append(Stage.HEADER)
        return max(needs, default=Stage.METHOD)

    @property
    def is_constant(self) -> bool:
        edits = [edit for edit in (self.arguments, self.fields, self.client_properties) if edit is not None]
        return self._needs is Stage.METHOD and all(edit.is_constant for edit in edits) and self._names.is_constant

    @property
    def changes_method(self) -> bool:
        return bool(self._names.renamings) or self.arguments is not None or self.fields is not None

    @cached_property
    def _names(self) -> NameTranslation:
        renamings, literals = {}, {}
        for kind in NameKind:
            value, patterns = getattr(self, kind), getattr(self.match, kind)
            if value is not None:
                renamings[kind] = Renaming(to=value) if isinstance(value, str) else value
            names = None if patterns is None else exact(patterns)
            if names is not None and len(names) == 1:
                literals[kind] = next(iter(names))
        is_for_some = any(getattr(self.match, key) for key in _CLIENT_KEYS)
        return NameTranslation(renamings, literals, self.follows, both_ways=self.both_ways, is_for_some=is_for_some)

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

    def begin_session(self) -> SessionNames:
        return self._names.begin_session()

    # --- what it decides

    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        command = context.command
        method: Method = command.method
        if isinstance(method, ConnectionTuneOk) and self.tune is not None:
            # An earlier rule may have raised the broker's frame_max, which the client did not ask for.
            asked = command.frames[0].method if command.frames else method
            close = self.tune.objection(asked)
            if close is not None:
                return Verdict(command=None, close=close, is_final=True)
            return Verdict(command=with_changes(command, self.tune.answered(method)))
        escape = self._names.escape(method, context, memory.own) if context.is_from_client else None
        if escape is not None:
            code = AccessRefused.code
            close = Close(Scope.CHANNEL, code, reply_text(code, f"{escape}, by rule '{self.name}'"))
            return Verdict(command=None, close=close, is_final=True)
        new_method = self._changed_method(method, context, memory.own)
        properties = body = None
        if self._needs >= Stage.HEADER and command.header is not None:
            properties = self._changed_properties(command.properties, method, context, memory.own)
            if self.body is not None and command.is_complete:
                script_context = Context(self.name, context)
                body = self.body.applied(command.body, context, script_context)
        return Verdict(command=with_changes(command, new_method, properties, body))

    def _changed_method(self, method: Method, context: CommandContext, names: SessionNames) -> Method:
        if isinstance(method, ConnectionStartOk):
            return self._logged_in(method, context, names)
        if isinstance(method, ConnectionTune):
            return method if self.tune is None else self.tune.offered(method)
        if isinstance(method, ConnectionUpdateSecret) and self._password is not None:
            return msgspec.structs.replace(method, new_secret=self._password.reveal().encode())
        if context.is_from_client:
            method = self._names.changed_method(method, context, names)
        if self.arguments is not None and hasattr(method, "arguments"):
            arguments = self.arguments.of_table(method.arguments, context)
            if arguments is not method.arguments:
                method = msgspec.structs.replace(method, arguments=arguments)
        if self.fields is not None:
            method = self.fields.of_fields(method, context)
        return method

    def _logged_in(self, start: ConnectionStartOk, context: CommandContext, names: SessionNames) -> ConnectionStartOk:
        renaming = self._names.renamings.get(NameKind.USER)
        if renaming is not None or self._has_password:
            rename = self._names.to_broker(context, names)
            user = rename(NameKind.USER, context.client.user) if context.client.user else None
            if user is None and renaming is not None and renaming.source is None and renaming.to is not None:
                user = renaming.new("", context)
            start = login.rewritten(start, lambda name: rename(NameKind.USER, name), user, self._password)
        if self.client_properties is not None:
            properties = self.client_properties.of_table(start.client_properties, context)
            start = msgspec.structs.replace(start, client_properties=properties)
        return start

    def _changed_properties(
        self, old: Properties, method: Method, context: CommandContext, names: SessionNames
    ) -> Properties:
        properties = old
        if context.is_from_client and self._names.is_in_properties:
            properties = self._names.changed_properties(properties, method, context, names)
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

    # --- restored names

    def restores(self, sender: Peer) -> frozenset[str]:
        return self._names.restores(sender)

    def restores_alike(self, sender: Peer) -> bool:
        return self.is_constant and sender is SERVER  # a tag refers to another consumer once there is one

    @property
    def restoring_needs(self) -> Stage:
        return self._names.restoring_needs

    def restore(self, context: CommandContext, memory: RuleState) -> Verdict:
        return Verdict(command=self._names.restored(context, memory.own))


_CLIENT_KEYS = ("user", "vhost", "address", "connection_name", "client", "listener", "tls_subject", "tls_sni")
"""Keys of `match` that select clients."""

_NO_HEADERS = Table()
