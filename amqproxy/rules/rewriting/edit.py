"""Changes to named values: table entries, message properties, method fields."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import cached_property
from typing import Any

import msgspec
from msgspec.structs import replace

from amqproxy.amqp091.methods import BY_NAME, Method, spec_name
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Field, Table
from amqproxy.rules.context import CommandContext
from amqproxy.rules.matching.patterns import Predicate, predicate
from amqproxy.rules.matching.templates import Template, as_text
from amqproxy.rules.short_strings import check_short_string
from amqproxy.rules.verdict import Stage

Number = int | float


class Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, dict=True):
    """Changes to entries by name, in this order.

    `rename` renames an entry, replacing one with the new name. `remove` removes entries by patterns. `at_most` and
    `at_least` bound existing numbers. `default` adds missing entries, `set` sets entries in any case. Texts to be set
    are templates, such as `{user}`; a template that is a single field keeps the type of its value, and sets nothing if
    the command has no such value.
    """

    rename: dict[str, str] = {}
    remove: tuple[str, ...] = ()
    at_most: dict[str, Number] = {}
    at_least: dict[str, Number] = {}
    default: dict[str, Any] = {}
    set: dict[str, Any] = {}

    def __post_init__(self) -> None:
        for name, value in [*self.default.items(), *self.set.items()]:
            try:
                _ = Table({name: value})
            except TypeError as error:
                raise ValueError(f"`{name}`: {error}") from None
            except (ValueError, OverflowError, struct.error):
                raise ValueError(f"`{name}`: {value!r} does not fit any type of a field table") from None
        for name in self.rename.values():
            check_short_string(name)
        for bound in [*self.at_most.values(), *self.at_least.values()]:
            if not math.isfinite(bound) or not -(2**63) <= bound < 2**63:
                raise ValueError(f"{bound} does not bound any number of a field table")
        for name in self.default:
            if name in self.set:
                raise ValueError(f"`{name}` is in `set`, which makes its default useless: leave one out")
        _ = self._templates, self._is_unwanted

    @property
    def needs(self) -> Stage:
        """Part of a command that must be received for the values to be set."""
        return max([template.needs for template in self._templates.values()], default=Stage.METHOD)

    @property
    def is_constant(self) -> bool:
        return all(template.is_constant for template in self._templates.values())

    @property
    def names(self) -> frozenset[str]:
        """Names that are changed to known or bounded values."""
        return frozenset([*self.rename, *self.rename.values(), *self.at_most, *self.at_least, *self.default, *self.set])

    # --- what it is applied to

    def of_table(self, table: Table, context: CommandContext) -> Table:
        """Return the changed table, or the same object; other entries keep their types and places."""
        fields = self._kept(table.fields)
        fields = [self._bounded_field(field) for field in fields]
        present = {field.name for field in fields}
        for name in self.default:
            if name not in present:
                fields += self._made(name, self.default[name], context)
        for name in self.set:
            fields = _put(fields, self._made(name, self.set[name], context))
        return table if tuple(fields) == table.fields else Table(fields)

    def of_properties(self, properties: Properties, context: CommandContext) -> Properties:
        """Return the changed properties; raise `ValueError` if a value must be a number and is not."""
        old = properties.present()
        kept = {field.name: field.value for field in self._kept(Field(name, "", value) for name, value in old.items())}
        if self.rename:  # the new name may have another type
            kept |= {name: _as_property(name, kept[name]) for name in self.rename.values() if name in kept}
        new = {name: self._bounded_property(name, value) for name, value in kept.items()}
        for name, value in self.default.items():
            if name not in new:
                self._put_property(new, name, value, context)
        for name, value in self.set.items():
            self._put_property(new, name, value, context)
        return properties if new == old else Properties(**new)

    def of_fields(self, method: Method, context: CommandContext) -> Method:
        """Return the changed method; fields that it lacks are ignored."""
        changes: dict[str, Any] = {}
        for name, field in method.spoken:
            if name in self.names:
                old = getattr(method, field)
                new = self._value(name, self.set[name], context) if name in self.set else old
                new = old if new is None else _as_field(name, new)
                changes[field] = self._bounded(name, new, zero_is_no_limit=name in UNLIMITED_BY_ZERO)
        return replace(method, **changes) if changes else method

    # --- its steps

    def _kept(self, fields: Iterable[Field]) -> list[Field]:
        """Return the entries under their new names, without the removed ones."""
        replaced = frozenset(self.rename.values())
        old = list(fields)
        moved = {self.rename[field.name] for field in old if field.name in self.rename}
        new = []
        for field in old:
            if field.name in self.rename:
                field = field._replace(name=self.rename[field.name])
            elif field.name in replaced and field.name in moved:
                continue
            if self._is_unwanted is None or not self._is_unwanted(field.name):
                new.append(field)
        return new

    def _bounded(self, name: str, value: Any, *, zero_is_no_limit: bool = False) -> Any:
        if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
            return value
        most, least = self.at_most.get(name), self.at_least.get(name)
        if most is not None and (value > most or (zero_is_no_limit and value == 0)):
            return most
        if least is not None and value < least and not (zero_is_no_limit and value == 0):
            return least
        return value

    def _bounded_field(self, field: Field) -> Field:
        """Return the bounded entry, in its own type if that can hold the bound."""
        new = self._bounded(field.name, field.value)
        if new is field.value:
            return field
        bounded = field._replace(value=new)
        try:
            _ = Table([bounded])
        except (struct.error, OverflowError, AttributeError):  # AttributeError: a decimal is not a Python number
            return Table({field.name: new}).fields[0]
        return bounded

    def _bounded_property(self, name: str, value: Any) -> Any:
        """Return the bounded property; an expiration is a number written as a text."""
        if isinstance(value, str) and value.isascii() and value.isdecimal():
            return str(self._bounded(name, int(value)))
        return self._bounded(name, value)

    def _made(self, name: str, value: Any, context: CommandContext) -> list[Field]:
        """Return the entry made of `value`, or none."""
        template = self._templates.get(name) if isinstance(value, str) else None
        if template is None:
            return list(Table({name: value}).fields)
        made = template.value(context)
        return [] if made is None else list(Table({name: made}).fields)

    def _value(self, name: str, value: Any, context: CommandContext) -> Any:
        template = self._templates.get(name) if isinstance(value, str) else None
        return value if template is None else template.value(context)

    def _put_property(self, properties: dict[str, Any], name: str, value: Any, context: CommandContext) -> None:
        made = self._value(name, value, context)
        if made is not None:
            properties[name] = _as_property(name, made)

    @cached_property
    def _templates(self) -> Mapping[str, Template]:
        """Templates of entries that are texts; a name is either in `set` or in `default`."""
        return {name: Template(value) for name, value in (self.default | self.set).items() if isinstance(value, str)}

    @cached_property
    def _is_unwanted(self) -> Predicate | None:
        return predicate(self.remove) if self.remove else None


def _put(fields: list[Field], made: list[Field]) -> list[Field]:
    """Replace the first entry of that name and drop its duplicates, or append the entry."""
    if not made:
        return fields
    [entry] = made
    new, is_there = [], False
    for field in fields:
        if field.name != entry.name:
            new.append(field)
        elif not is_there:
            new.append(entry)
            is_there = True
    return new if is_there else [*fields, entry]


# --- what may be edited

_WIDTHS = {"o": 8, "h": 16, "l": 32, "q": 64}
PROPERTIES: Mapping[str, str] = {
    name: letter
    for name, letter in zip(Properties.__struct_fields__, Properties.layout.decode(), strict=True)
    if name != "headers"
}
"""Editable properties with the letters of their wire types; headers are a table with its own key."""

UNLIMITED_BY_ZERO = frozenset({"prefetch_count", "prefetch_size"})
"""Fields in which 0 means unlimited, and counts as larger than any number."""

_PLAIN_FIELDS = frozenset(
    (
        *("durable", "auto_delete", "exclusive", "internal", "passive", "type"),
        *("no_local", "no_ack", "prefetch_count", "prefetch_size", "global_"),
        *("mandatory", "immediate", "if_unused", "if_empty", "requeue", "redelivered"),
        *("message_count", "consumer_count", "reply_code", "reply_text", "reason", "locale"),
    )
)


def _letters() -> dict[str, str]:
    letters: dict[str, str] = {}
    for method in BY_NAME.values():
        for field, letter in zip(method.__struct_fields__, method.layout.decode(), strict=True):
            if field in _PLAIN_FIELDS:
                letters[spec_name(field)] = letter
    return letters


FIELDS: Mapping[str, str] = _letters()
"""Editable method fields with the letters of their wire types.

Names, arguments, credentials and limits have their own keys. Fields that number messages or decide whether there is an
answer cannot be edited, since the two legs would then disagree.
"""


def check_properties(edit: Edit) -> None:
    """Raise `ValueError` for an unknown property, or a value that it cannot have."""
    for name in edit.names:
        if name not in PROPERTIES:
            raise ValueError(f"`{name}` is not a property of a message: there are {', '.join(PROPERTIES)}")
    _check_values(edit, PROPERTIES, _as_property)


def check_fields(edit: Edit) -> None:
    """Raise `ValueError` for a field that cannot be edited, or a value that it cannot have."""
    if edit.rename or edit.remove or edit.default:
        raise ValueError("the fields of a method always exist: they can only be set and bounded")
    for name in edit.names:
        if name not in FIELDS:
            raise ValueError(f"`{name}` is not an editable field: there are {', '.join(sorted(FIELDS))}")
    _check_values(edit, FIELDS, _as_field)


def _check_values(edit: Edit, letters: Mapping[str, str], convert: Callable[[str, Any], Any]) -> None:
    for name, value in [*edit.default.items(), *edit.set.items()]:
        if not isinstance(value, str) or not Template(value).places:
            convert(name, value)
    for name, bound in [*edit.at_most.items(), *edit.at_least.items()]:
        if letters[name] in _WIDTHS:
            convert(name, bound)
        elif name != "expiration":
            raise ValueError(f"`{name}` is not a number, and cannot be bounded")


def _as_property(name: str, value: Any) -> Any:
    return as_letter(PROPERTIES[name], name, value)


def _as_field(name: str, value: Any) -> Any:
    return as_letter(FIELDS[name], name, value)


def as_letter(letter: str, name: str, value: Any) -> Any:
    """Convert a value for a wire type; raise `ValueError` if that is impossible."""
    if letter == "b":
        if not isinstance(value, bool):
            raise ValueError(f"`{name}` must be true or false, not {value!r}")
        return value
    if letter in _WIDTHS:
        text = as_text(value)
        if not (text.isascii() and text.isdecimal()) or int(text) >= 1 << _WIDTHS[letter]:
            raise ValueError(f"`{name}` must be a number of {_WIDTHS[letter]} bits, not {value!r}")
        return int(text)
    text = as_text(value)
    if len(text.encode("utf-8", "surrogateescape")) > 255:
        raise ValueError(f"`{name}` has at most 255 bytes, and this has more: {text[:40]!r}…")
    return text
