"""The `redact` action: masks values in records, captures and logs; the traffic is unchanged."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any

import msgspec
import msgspec.structs

from amqproxy.amqp091.methods import BY_NAME
from amqproxy.rules.context import CommandContext
from amqproxy.rules.matching.patterns import Predicate, predicate, regular_expression, sound
from amqproxy.rules.rewriting.edit import PROPERTIES
from amqproxy.rules.rewriting.masking import (
    MAX_MASK,
    masked_json,
    masked_properties,
    masked_table,
    masked_text,
    pointer,
)
from amqproxy.rules.rewriting.name_fields import MESSAGES
from amqproxy.rules.rule import Cacheable, Rule, RuleState
from amqproxy.rules.verdict import Stage, Verdict

FIELDS = frozenset(
    (
        "exchange",
        "queue",
        "routing_key",
        "consumer_tag",
        "source",
        "destination",
        "reply_text",
        "virtual_host",
        "reason",
    )
)
"""Maskable method fields: texts that do not affect counting or frame order."""

TABLES = ("arguments", "client_properties", "server_properties")


class Redact(Rule, Cacheable, frozen=True, tag="redact"):
    """Mask the named values for taps.

    `headers`, `properties` and `arguments` are patterns of names; arguments include the properties of clients and
    brokers. `json` are JSON pointers into the body; `*` is every entry, and a body that is not JSON is masked whole.
    `text` are regular expressions (RE2). `body` masks the whole body.
    """

    headers: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    json: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    body: bool = False
    mask: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_MASK, pattern=r"^[ -~]*$")] = "***"

    changes_method = False

    def __post_init__(self) -> None:
        if not self._is_of_method and not self._is_of_header and not self._is_of_body:
            raise ValueError("this rule masks nothing: name headers, properties, arguments, fields or a body")
        for name in self.fields:
            if name not in FIELDS:
                raise ValueError(f"`{name}` cannot be masked: name one of {', '.join(sorted(FIELDS))}")
        if self._secret_properties is not None and not any(self._secret_properties(name) for name in PROPERTIES):
            raise ValueError(
                f"{', '.join(self.properties)}: no message has such a property; headers have a key of theirs"
            )
        _ = self._secret_headers, self._secret_arguments, self._pointers, self._expressions
        matched = self.matched
        if not matched & self.methods:
            raise ValueError(f"there is nothing to mask in {', '.join(sorted(matched)[:3])}")

    @property
    def _is_of_method(self) -> bool:
        return bool(self.arguments or self.fields)

    @property
    def _is_of_header(self) -> bool:
        return bool(self.headers or self.properties)

    @property
    def _is_of_body(self) -> bool:
        return bool(self.json or self.text or self.body)

    @property
    def methods(self) -> frozenset[str]:
        wanted = {*self.fields, *(TABLES if self.arguments else ())}
        found = {name for name, method in BY_NAME.items() if wanted & set(method.__struct_fields__)}
        return frozenset(found | MESSAGES if self._is_of_header or self._is_of_body else found)

    @property
    def needs(self) -> Stage:
        if self._is_of_body:
            return Stage.BODY
        return Stage.HEADER if self._is_of_header else Stage.METHOD

    @cached_property
    def _secret_headers(self) -> Predicate | None:
        return predicate(self.headers) if self.headers else None

    @cached_property
    def _secret_properties(self) -> Predicate | None:
        return predicate(self.properties) if self.properties else None

    @cached_property
    def _secret_arguments(self) -> Predicate | None:
        return predicate(self.arguments) if self.arguments else None

    @cached_property
    def _pointers(self) -> tuple[tuple[str, ...], ...]:
        return tuple(pointer(text) for text in self.json)

    @cached_property
    def _expressions(self) -> tuple[Any, ...]:
        return tuple(regular_expression(text) for text in self.text)

    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        shown = context.command if context.shown is None else context.shown
        method = shown.method
        changes: dict[str, Any] = {field: self.mask for field in self.fields if getattr(method, field, "")}
        if self._secret_arguments is not None:
            for name in TABLES:
                table = getattr(method, name, None)
                if table is not None:
                    changes[name] = masked_table(table, self._secret_arguments, self.mask)
        new_method = msgspec.structs.replace(method, **changes) if changes else method
        properties, body = shown.properties, shown.body if self._is_of_body else b""
        new_properties, new_body = properties, body
        if shown.header is not None:
            if self._secret_properties is not None:
                new_properties = masked_properties(new_properties, self._secret_properties, self.mask)
            if self._secret_headers is not None and new_properties.headers is not None:
                headers = masked_table(new_properties.headers, self._secret_headers, self.mask)
                new_properties = msgspec.structs.replace(new_properties, headers=headers)
            if self._is_of_body:
                new_body = self._masked_body(body, context.body_limit)
        if new_method == method and new_properties == properties and new_body == body:
            return Verdict(command=context.command, shown=context.shown)
        covered = shown.altered(
            None if new_method == method else new_method,
            None if new_properties == properties else new_properties,
            None if new_body == body else new_body,
        )
        return Verdict(command=context.command, shown=covered)

    def _masked_body(self, body: bytes, limit: int) -> bytes:
        if not body:
            return body
        if self.body or len(body) > limit:  # a body that is not inspected is not shown
            return self.mask.encode()
        if self._pointers:
            body = masked_json(body, self._pointers, self.mask)
        if self._expressions:
            text = body.decode("utf-8", "surrogateescape")
            if sound(text) != text:
                return self.mask.encode()  # a body that cannot be searched is not shown
            body = masked_text(text, self._expressions, self.mask).encode()
        return body
