"""Positions of struct fields in memory, at which compiled decoders store values directly.

Calling the class takes several times as long. In the plain form no position is known, and decoders call the class.
"""

from __future__ import annotations

from typing import Any

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

MAX_FIELDS = 32


def places_of(cls: Any, names: tuple[str, ...]) -> bytes:
    """Return the positions of attributes of a class with `__slots__`, counted in pointers; `b""` if unknown."""
    if not cython.compiled:
        return b""
    places = [slot_of(getattr(cls, name)) for name in names]  # type: ignore[name-defined]  # noqa: F821 - see the .pxd
    if not names or len(names) > MAX_FIELDS or len(set(places)) < len(names):
        return b""
    return bytes(places) if all(2 <= place < 256 for place in places) else b""


def slots_of(cls: Any) -> bytes:
    """Like `places_of`, for the fields of a struct; `b""` also if its objects contain anything else."""
    names: tuple[str, ...] = cls.__struct_fields__
    slots = places_of(cls, names)
    if not slots or not has_only(cls, len(names)):  # type: ignore[name-defined]  # noqa: F821 - see the .pxd
        return b""
    made = new_struct(cls)  # type: ignore[name-defined]  # noqa: F821 - see the .pxd
    for slot, name in zip(slots, names, strict=True):
        fill_slot(made, slot, name)  # type: ignore[name-defined]  # noqa: F821 - see the .pxd
    return slots if all(getattr(made, name) is name for name in names) else b""


def blank_struct(cls: Any, slots: bytes, values: list[Any]) -> Any:
    """Return a struct to copy, which has the `values` at its `slots`; `None` if those are unknown."""
    if not cython.compiled or not slots:
        return None
    made = new_struct(cls)  # type: ignore[name-defined]  # noqa: F821 - see the .pxd
    for slot, value in zip(slots, values, strict=True):
        fill_slot(made, slot, value)  # type: ignore[name-defined]  # noqa: F821 - see the .pxd
    reuse_memory(cls)  # type: ignore[name-defined]  # noqa: F821 - see the .pxd
    return made


if not cython.compiled:

    def put_field(made: Any, slots: bytes, index: int, value: object) -> None:
        """Store a value at a place of a list or, if there are `slots`, in a field of a blank struct."""
        made[index] = value
