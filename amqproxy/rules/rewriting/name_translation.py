"""Name changes of a rewrite: to the broker's names in the client's commands, and back in the broker's.

Both directions are in one module, since each name must come back unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec.structs

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BasicPublish, ExchangeDeclare, Method, QueueDeclare
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.transitions import CLIENT, SENDERS, SERVER, Peer
from amqproxy.conversion.view_fields import QueueQueryOk
from amqproxy.rules.context import CommandContext
from amqproxy.rules.matching.operations import (
    ALTERNATE_EXCHANGE,
    UNKNOWN,
    dead_letters,
    falls_back,
    spellings,
    texts,
)
from amqproxy.rules.rewriting import name_fields
from amqproxy.rules.rewriting.name_fields import CLOSES, MESSAGES, NameKind, Rename
from amqproxy.rules.rewriting.renaming import Renaming, UsedNames, put
from amqproxy.rules.verdict import Stage

Follow = Literal["arguments", "reply_to", "copies", "deaths", "texts"]
EVERYWHERE: tuple[Follow, ...] = ("arguments", "reply_to", "copies", "deaths", "texts")
"""Places of names besides method fields: declare arguments, the property reply_to, the headers CC and BCC,
dead-lettering headers, and reply texts.
"""

RECALLED = frozenset({"basic.cancel", "basic.cancel-ok", "basic.credit"})
"""Client methods about an existing consumer: their tag changes only if it was changed when the consumer was created."""

_NEVER_EMPTY = {NameKind.QUEUE, NameKind.CONSUMER_TAG, NameKind.USER}
"""Kinds whose empty name has a meaning: the broker generates a name, or the last one is used."""

_OWN_KEYS = "messages would go to the default exchange with their own keys"

SessionNames = dict[NameKind, UsedNames]
"""Names used in one session, by kind."""


class NameTranslation:
    """The renamings of one rule, by the kind of name.

    `literals` has, by kind, the only name that a matching command can have, if there is just one. `follows` are the
    places besides methods in which names change. Unless `both_ways`, nothing is restored. `is_for_some` if the names of
    other clients are unchanged.
    """

    __slots__ = (
        "_follows",
        "_has_own_queues",
        "_is_back_in_properties",
        "_literals",
        "_restored_methods",
        "is_in_properties",
        "renamings",
        "restoring_needs",
    )

    def __init__(
        self,
        renamings: Mapping[NameKind, Renaming],
        literals: Mapping[NameKind, str],
        follows: tuple[Follow, ...],
        *,
        both_ways: bool,
        is_for_some: bool = False,
    ) -> None:
        self.renamings = renamings
        queue = renamings.get(NameKind.QUEUE)
        self._has_own_queues = queue is not None and queue.separates(is_for_some=is_for_some)
        self._literals = literals
        self._follows = frozenset(follows)
        kinds = renamings.keys()
        follows_copies, follows_reply_to = "copies" in follows, "reply_to" in follows
        self.is_in_properties = (NameKind.QUEUE in kinds and (follows_reply_to or follows_copies)) or (
            NameKind.ROUTING_KEY in kinds and follows_copies
        )
        """Whether names change in the properties of published messages."""
        self._is_back_in_properties = (
            (NameKind.QUEUE in kinds and follows_reply_to)
            or (bool(kinds & {NameKind.QUEUE, NameKind.ROUTING_KEY}) and follows_copies)
            or (bool(kinds & {NameKind.EXCHANGE, NameKind.QUEUE, NameKind.ROUTING_KEY}) and "deaths" in follows)
        )
        self._restored_methods = _restored_methods(kinds, self._follows) if both_ways else frozenset()
        self.restoring_needs = Stage.HEADER if both_ways and self._is_back_in_properties else Stage.METHOD

    @property
    def is_constant(self) -> bool:
        """Whether each name always maps to the same name, and back."""
        return all(each.is_reversible or self._literals.get(kind) for kind, each in self.renamings.items())

    def is_about(self, name: str) -> bool:
        """Whether names can change in this client method."""
        if CLIENT not in SENDERS[name] or name in RECALLED:
            return False
        kinds = {kind for _, kind in name_fields.FIELDS.get(name, ())}
        if name in MESSAGES and NameKind.ROUTING_KEY in kinds:
            kinds.add(NameKind.QUEUE)  # through the default exchange
        if name == "queue.declare" or name == "exchange.declare":
            kinds |= {NameKind.EXCHANGE, NameKind.QUEUE, NameKind.ROUTING_KEY}  # in their arguments
        return bool(kinds & self.renamings.keys())

    def begin_session(self) -> SessionNames:
        return {kind: UsedNames() for kind in self.renamings}

    # --- to the broker

    def escape(self, method: Method, context: CommandContext, names: SessionNames) -> str | None:
        """Return why unchanged routing keys could reach queues of other clients, if clients have their own queues.

        `None` if they cannot.
        """
        if not self._has_own_queues:
            return None
        if isinstance(method, QueueDeclare) and not method.passive:
            is_keyless = any(not exchange and key is UNKNOWN for exchange, key in dead_letters(method))
            return _OWN_KEYS if is_keyless else None
        if isinstance(method, ExchangeDeclare) and not method.passive:
            return _OWN_KEYS if "" in texts(method.arguments, ALTERNATE_EXCHANGE) else None
        if isinstance(method, BasicPublish) and falls_back(method):
            rename = self.to_broker(context, names)
            key, exchange = method.routing_key, method.exchange
            own_exchange = rename(NameKind.EXCHANGE, exchange)
            is_own = rename(NameKind.QUEUE, exchange) == own_exchange and rename(NameKind.QUEUE, key) == key
            return None if is_own else f"'{exchange}' may not be an exchange: query or declare it before"
        return None

    def changed_method(self, method: Method, context: CommandContext, names: SessionNames) -> Method:
        """Return the client's method with the broker's names."""
        if not self.renamings or method.name in RECALLED:
            return method
        return name_fields.renamed(method, self.to_broker(context, names), in_arguments="arguments" in self._follows)

    def changed_properties(
        self, properties: Properties, method: Method, context: CommandContext, names: SessionNames
    ) -> Properties:
        """Return the properties of a client's message with the broker's names."""
        return self._renamed_properties(properties, method, self.to_broker(context, names))

    def to_broker(self, context: CommandContext, names: SessionNames) -> Rename:
        """Return the mapping from the client's names to the broker's."""

        def rename(kind: NameKind, name: str) -> str:
            used = names.get(kind)
            if used is None or (not name and kind in _NEVER_EMPTY):
                return name
            plain = used.plain.get(name)
            if plain is not None:
                return plain
            renaming = self.renamings[kind]
            new = _renamed_as_spelt(renaming, kind, name, context)
            is_reversible = renaming.old(new, context, self._literals.get(kind)) == name
            if is_reversible:
                used.forget(new)
            if kind is NameKind.CONSUMER_TAG or not is_reversible:
                used.note(name, new)
            else:
                put(used.plain, name, new)
            return new

        return rename

    # --- to the client

    def restores(self, sender: Peer) -> frozenset[str]:
        """Return the methods of `sender` in which names are restored."""
        if sender is CLIENT:
            return RECALLED if NameKind.CONSUMER_TAG in self.renamings else frozenset()
        return self._restored_methods

    def restored(self, context: CommandContext, names: SessionNames) -> Command:
        """Return the command with the names that its receiver knows."""
        command = context.command
        method: Any = command.method
        if context.is_from_client:
            new_tag = names[NameKind.CONSUMER_TAG].new(method.consumer_tag)
            if new_tag is None or new_tag == method.consumer_tag:
                return command
            return command.altered(msgspec.structs.replace(method, consumer_tag=new_tag))
        rename = self._to_client(context, names)
        if method.name in CLOSES:
            text = name_fields.renamed_text(method.reply_text, rename)
            new = method if text == method.reply_text else msgspec.structs.replace(method, reply_text=text)
            return with_changes(command, new)
        new = name_fields.renamed(method, rename, is_back=True)
        properties = None
        if command.header is not None and self._is_back_in_properties and self._may_bear_names(command):
            properties = self._renamed_properties(command.properties, new, rename)
        return with_changes(command, new, properties)

    def _may_bear_names(self, command: Command) -> bool:
        """Whether the header may contain a name; most do not, which shows without decoding."""
        if NameKind.QUEUE in self.renamings or len(command.frames) < 2:
            return True
        header = command.frames[1].payload
        return b"-death" in header or b"CC" in header

    def _to_client(self, context: CommandContext, names: SessionNames) -> Rename:
        """Return the mapping from the broker's names to the client's."""

        def rename(kind: NameKind, new: str) -> str:
            used = names.get(kind)
            if used is None:
                return new
            old = used.restored.get(new)
            if old is None:
                old = used.old(new)
                if old is None:
                    old = self.renamings[kind].old(new, context, self._literals.get(kind))
                put(used.restored, new, old)
            return old

        return rename

    # --- both ways

    def _renamed_properties(self, properties: Properties, method: Method, rename: Rename) -> Properties:
        follows = self._follows
        return name_fields.renamed_properties(
            properties,
            getattr(method, "exchange", ""),
            rename,
            reply_to="reply_to" in follows,
            copies="copies" in follows,
            deaths="deaths" in follows,
        )


def _renamed_as_spelt(renaming: Renaming, kind: NameKind, name: str, context: CommandContext) -> str:
    """Return the new name; an unmapped name gets that of its spelling without line breaks, which brokers may drop."""
    new = renaming.new(name, context)
    if new != name or kind not in (NameKind.EXCHANGE, NameKind.QUEUE):
        return new
    plain = spellings(name)[-1]
    plain_new = new if plain == name else renaming.new(plain, context)
    return name if plain_new == plain else plain_new


def _restored_methods(kinds: Any, follows: frozenset[str]) -> frozenset[str]:
    found = set()
    for name, fields in name_fields.FIELDS.items():
        named = {kind for _, kind in fields}
        if name in MESSAGES:
            named.add(NameKind.QUEUE)
        if name == QueueQueryOk.name:
            named.add(NameKind.EXCHANGE)  # the view of another protocol's result, which names the alternate exchange
        if SERVER in SENDERS[name] and named & kinds:
            found.add(name)
    if "texts" in follows and kinds:
        found |= CLOSES
    return frozenset(found)


def with_changes(
    command: Command, method: Method, properties: Properties | None = None, body: bytes | None = None
) -> Command:
    """Return the command with its changed parts, or the same object."""
    new_method = None if method is command.method or method == command.method else method
    new_properties = None if properties is None or properties is command.properties else properties
    new_body = None if body is None or body == command.body else body
    if new_properties is not None and new_properties == command.properties:
        new_properties = None
    if new_method is None and new_properties is None and new_body is None:
        return command
    return command.altered(new_method, new_properties, new_body)
