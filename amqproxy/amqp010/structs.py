"""Base class of structs, and their registration (section 5.3)."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, ClassVar, TypeVar, get_args, get_type_hints

import msgspec

from amqproxy.amqp010.fields import REQUIRED
from amqproxy.amqp010.wire import FIELD_CODES, StructDecoder, encode_fields, enter_struct

BY_CODE: dict[int, type[Struct]] = {}
"""Structs by code: the class code times 256, plus the struct's."""

BY_NAME: dict[str, type[Struct]] = {}
"""All structs by the specification's name, with that of their class: "message.reply-to"."""


class Struct(msgspec.Struct, frozen=True, gc=False):
    """Base class of structs.

    `name` is the specification's, `code` is `None` for a struct without a code, `size` and `pack` are the widths of its
    size and its packing flags in bytes. `layout` is a code of `wire` for each of `fields`, `required` names the
    mandatory ones, `choices` has the enumerations of fields by name.
    """

    name: ClassVar[str]
    code: ClassVar[int | None]
    size: ClassVar[int]
    pack: ClassVar[int]
    layout: ClassVar[bytes]
    fields: ClassVar[tuple[str, ...]]
    required: ClassVar[tuple[str, ...]]
    choices: ClassVar[dict[str, type[IntEnum]]]
    decoder: ClassVar[StructDecoder]

    def encode(self) -> bytes:
        """Return the struct with its size, code and packing flags, as far as it has them.

        Raise `ValueError`, `TypeError`, `OverflowError` or `struct.error` if a value does not fit its type.
        """
        code = b"" if self.code is None else self.code.to_bytes(2)
        data = code + encode_fields(self.layout, self.pack, [getattr(self, field) for field in self.fields])
        return len(data).to_bytes(self.size) + data if self.size else data

    def present(self) -> dict[str, Any]:
        """Return the present fields by name, including bits that are set."""
        values = {field: getattr(self, field) for field in self.fields}
        return {field: value for field, value in values.items() if value is not None and value is not False}

    @property
    def absent(self) -> tuple[str, ...]:
        """Mandatory fields that are missing."""
        return tuple([field for field in self.required if getattr(self, field) is None])


class Described(msgspec.Struct, frozen=True):
    """Description of a class's fields from their annotations: codes, mandatory fields, and enumerations."""

    layout: bytes
    required: tuple[str, ...]
    choices: dict[str, type[IntEnum]]


def describe(cls: type[msgspec.Struct], fields: tuple[str, ...]) -> Described:
    """Return the description of these fields."""
    hints = get_type_hints(cls, include_extras=True)
    layout = bytearray()
    required = []
    choices = {}
    for field in fields:
        words = list(_metadata(hints[field]))
        if REQUIRED in words:
            words.remove(REQUIRED)
            required.append(field)
        layout.append(next(code for word in words if (code := _code(word)) is not None))
        for word in words:
            if isinstance(word, type) and issubclass(word, IntEnum):
                choices[field] = word
    return Described(bytes(layout), tuple(required), choices)


def _metadata(hint: Any) -> list[Any]:
    """Return the metadata of a type and of nested types; a struct is its own."""
    words = list(getattr(hint, "__metadata__", ()))
    if isinstance(hint, type) and issubclass(hint, Struct):
        words.append(hint)
    for inner in (hint.__origin__,) if words and hasattr(hint, "__origin__") else get_args(hint):
        words += _metadata(inner)
    return words


def _code(word: Any) -> int | None:
    if isinstance(word, str):
        return FIELD_CODES.get(word)
    return _NESTED.get(word.name) if isinstance(word, type) and issubclass(word, Struct) else None


_NESTED = {"message.reply-to": 0xE3, "dtx.xid": 0xE4}
"""Structs used as fields, with their codes in `wire`."""

S = TypeVar("S", bound=Struct)


def struct(name: str, *, size: int, pack: int, code: int | None = None) -> Callable[[type[S]], type[S]]:
    """Set a class's wire form, and enter it in the tables above."""

    def enter(cls: type[S]) -> type[S]:
        cls.name, cls.size, cls.pack, cls.code = name, size, pack, code
        cls.fields = tuple(field for field in cls.__struct_fields__ if field != "is_plain")
        described = describe(cls, cls.fields)
        cls.layout, cls.required, cls.choices = described.layout, described.required, described.choices
        cls.decoder = StructDecoder(cls, cls.layout, pack)
        enter_struct(cls.decoder, code, _NESTED.get(name))
        BY_NAME[name] = cls
        if code is not None:
            BY_CODE[code] = cls
        return cls

    return enter
