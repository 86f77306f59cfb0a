"""Mapping of an AMQP 0-10 control or command to a 0-9-1 method, field by field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from amqproxy.amqp010.methods import Method as Method010
from amqproxy.amqp010.wire import Array, Map
from amqproxy.amqp091.methods import Method, spec_name
from amqproxy.amqp091.wire import Field, Table
from amqproxy.conversion.amqp010.header_tables import merged, table_of
from amqproxy.conversion.inexpressible import Inexpressible

_NO_MAP = Map()


class Place:
    """Location of a 0-9-1 field in 0-10: `read` returns its value or `None`; `written` returns the changed fields.

    Without `written`, it is read-only.
    """

    __slots__ = ("read", "written")

    def __init__(
        self, read: Callable[[Any], Any], written: Callable[[Any, Any], Mapping[str, Any]] | None = None
    ) -> None:
        self.read = read
        self.written = written


def plain(field: str) -> Place:
    """Return the place of a field with the same values, under this name."""
    return Place(lambda method: getattr(method, field), lambda method, value: {field: value})


def readable(field: str) -> Place:
    """Return the place of a read-only field."""
    return Place(lambda method: getattr(method, field))


def words(field: str) -> Place:
    """Return the place of an array of texts, in 0-9-1 one text separated by spaces."""

    def read(method: Any) -> bytes:
        found: Array | None = getattr(method, field)
        return b"" if found is None else " ".join(map(str, found)).encode("utf-8", "surrogateescape")

    return Place(read)


def table(field: str, alternate: str = "") -> Place:
    """Return the place of a map, in 0-9-1 a table; `alternate` is its entry for the alternate exchange."""

    def read(method: Any) -> Table:
        found = table_of(getattr(method, field) or _NO_MAP)
        other = getattr(method, "alternate_exchange", None) if alternate else None
        if not other:  # without a name, there is no alternate exchange
            return found
        fields = [each for each in found.fields if each.name != alternate]
        return Table([*fields, Field(alternate, "S", other)])

    def written(method: Any, value: Table) -> Mapping[str, Any]:
        original: Map | None = getattr(method, field)
        fields = [each for each in value.fields if not alternate or each.name != alternate]
        changes: dict[str, Any] = {}
        if fields or original is not None:
            changes[field] = merged(Table(fields), original or _NO_MAP)
        if alternate:
            other = value.get(alternate)
            if other is not None and not isinstance(other, str):
                raise Inexpressible(f"`{alternate}` is a text in AMQP 0-10")
            if other != (method.alternate_exchange or None):
                changes["alternate_exchange"] = other
        return changes

    return Place(read, written)


class MethodShape:
    """Mapping of a control or command: the 0-9-1 `method`, and the `places` of its fields.

    `constants` are the values of fields that 0-10 lacks.
    """

    __slots__ = ("_places", "constants", "method")

    def __init__(
        self, method: type[Method], places: Mapping[str, Place | str] = {}, constants: Mapping[str, Any] = {}
    ) -> None:
        self.method = method
        self._places = {field: plain(place) if isinstance(place, str) else place for field, place in places.items()}
        self.constants = constants

    def view(self, original: Method010) -> Method:
        """Return the 0-9-1 method."""
        values = dict(self.constants)
        for field, place in self._places.items():
            value = place.read(original)
            if value is not None:
                values[field] = value
        return self.method(**values)

    def changed(self, original: Method010, before: Method, after: Method) -> Method010:
        """Return the original with the differences between its view and the result; raise `Inexpressible`."""
        for field in changed_fields(before, after):
            place = self._places.get(field)
            if place is None or place.written is None:
                raise Inexpressible(f"`{spec_name(field)}` of {before.name} cannot be changed in AMQP 0-10")
            original = replace(original, **place.written(original, getattr(after, field)))
        return original


def changed_fields(before: Method, after: Method) -> list[str]:
    """Return the fields in which two methods differ; raise `Inexpressible` if their types differ."""
    if type(before) is not type(after):
        raise Inexpressible(f"{before.name} cannot become {after.name} in AMQP 0-10")
    return [field for field in before.__struct_fields__ if getattr(before, field) != getattr(after, field)]
