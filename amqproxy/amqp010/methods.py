"""Base classes of controls and commands, both of which the specification calls methods (sections 5.7 and 5.8)."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, ClassVar, TypeVar

import msgspec

from amqproxy.amqp010.domains import ErrorCode, SegmentType
from amqproxy.amqp010.exceptions import EXCEPTIONS
from amqproxy.amqp010.structs import Struct, describe
from amqproxy.amqp010.wire import StructDecoder, encode_fields

PACK = 2
"""Bytes of packing flags of each control and command."""


class Method(msgspec.Struct, frozen=True, gc=False):
    """Base class of controls and commands.

    `name` is the specification's ("message.transfer"), `index` a small number for tables of counters, `segment` the
    type of its segment. `layout` is a code of `wire` for each of `fields`, `required` names the mandatory ones,
    `choices` has the enumerations of fields by name, `spoken` the names of the fields: the specification's, and the
    attribute's. `must` and `may` are the roles that have to, or may, handle it.
    """

    name: ClassVar[str]
    class_code: ClassVar[int]
    method_code: ClassVar[int]
    index: ClassVar[int]
    segment: ClassVar[SegmentType]
    layout: ClassVar[bytes]
    fields: ClassVar[tuple[str, ...]]
    required: ClassVar[tuple[str, ...]]
    choices: ClassVar[dict[str, type[IntEnum]]]
    spoken: ClassVar[tuple[tuple[str, str], ...]]
    must: ClassVar[tuple[str, ...]]
    may: ClassVar[tuple[str, ...]]
    responses: ClassVar[tuple[str, ...]]
    carries_content: ClassVar[bool]
    secret: ClassVar[str] = ""
    """The field that is masked wherever the method is shown, recorded or read by rules."""
    decoder: ClassVar[StructDecoder]

    def encode(self) -> bytes:
        """Return the method's segment: its two codes, the session header of a command, then its arguments.

        Raise `ValueError`, `TypeError`, `OverflowError` or `struct.error` if a value does not fit its type.
        """
        return self._head() + encode_fields(self.layout, PACK, [getattr(self, field) for field in self.fields])

    def _head(self) -> bytes:
        return bytes((self.class_code, self.method_code))

    def to_dict(self) -> dict[str, Any]:
        """Return the present fields by the specification's names."""
        values = {name: getattr(self, field) for name, field in self.spoken}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def absent(self) -> tuple[str, ...]:
        """Mandatory fields that are missing."""
        return tuple([field for field in self.required if getattr(self, field) is None])


class Control(Method, frozen=True):
    """A method that is not acknowledged: its segment is a complete assembly, on track 0."""

    segment = SegmentType.CONTROL


class Command(Method, frozen=True, kw_only=True):
    """A method that is acknowledged, and has an id that both peers count: on track 1.

    `sync` requests its completion at once; it is a field of the session header (section 5.8). `result` is the struct of
    its execution.result, `entries` are the structs of its header, whose segment is mandatory if it `requires_header`;
    `exceptions` has the error codes of its exceptions by name.
    """

    segment = SegmentType.COMMAND
    result: ClassVar[type[Struct] | None]
    entries: ClassVar[tuple[type[Struct], ...]]
    requires_header: ClassVar[bool]
    exceptions: ClassVar[dict[str, ErrorCode]]

    sync: bool = False

    def _head(self) -> bytes:
        return bytes((self.class_code, self.method_code, 1, self.sync))


def spec_name(field: str) -> str:
    """Return the specification's name for a field that is renamed because of a Python keyword or a `Method`
    attribute.
    """
    return _SPEC_NAMES.get(field, field)


_SPEC_NAMES = {
    "failing_class_code": "class_code",
    "failing_command_code": "command_code",
    "global_": "global",
    "name_": "name",
}

METHODS: dict[int, type[Method]] = {}
"""All controls and commands by number: the class code times 256, plus its own."""

BY_NAME: dict[str, type[Method]] = {}
BY_INDEX: list[type[Method]] = []

M = TypeVar("M", bound=Method)
C = TypeVar("C", bound=Command)


def control(
    name: str, class_code: int, method_code: int, *, must: str = "", may: str = "", responses: str = ""
) -> Callable[[type[M]], type[M]]:
    """Set a class's codes, and enter it in the tables above; several roles or names are separated by spaces."""

    def enter(cls: type[M]) -> type[M]:
        cls.name, cls.class_code, cls.method_code = name, class_code, method_code
        cls.must, cls.may, cls.responses = tuple(must.split()), tuple(may.split()), tuple(responses.split())
        cls.carries_content = False
        cls.fields = tuple(field for field in cls.__struct_fields__ if field != "sync")
        described = describe(cls, cls.fields)
        cls.layout, cls.required, cls.choices = described.layout, described.required, described.choices
        cls.spoken = tuple((spec_name(field), field) for field in cls.fields)
        cls.decoder = StructDecoder(cls, cls.layout, PACK)
        cls.index = len(BY_INDEX)
        METHODS[class_code << 8 | method_code] = BY_NAME[name] = cls
        BY_INDEX.append(cls)
        return cls

    return enter


def command(
    name: str,
    class_code: int,
    method_code: int,
    *,
    must: str = "",
    may: str = "",
    responses: str = "",
    result: type[Struct] | None = None,
    entries: tuple[type[Struct], ...] = (),
    requires_header: bool = False,
) -> Callable[[type[C]], type[C]]:
    """Like `control`, for a command; one with `entries` carries content: a header with these, and a body."""

    def enter(cls: type[C]) -> type[C]:
        control(name, class_code, method_code, must=must, may=may, responses=responses)(cls)
        cls.result, cls.entries, cls.requires_header = result, entries, requires_header
        cls.carries_content = bool(entries)
        cls.exceptions = dict(EXCEPTIONS.get(name, {}))
        return cls

    return enter
