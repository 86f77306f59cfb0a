"""Names of the same shape, of which several are taken for one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from amqproxy.rules.matching.generated_names import Shape

MIN_ALIKE = 3
"""So many names that differ only in short numbers are taken to be generated."""


class Addable(Protocol):
    """What is known of a name, to which what is known of another can be added."""

    def add(self, other: Any, /) -> None: ...


T = TypeVar("T", bound=Addable)

Shapes = tuple[Shape, ...]


class NameFamily(Generic[T]):
    """What is known of names that are alike but for short numbers: of each that was seen, or of all once there are
    `MIN_ALIKE`. A name may have several parts; a part that is the same in all of them stays as it is.
    """

    __slots__ = ("_make", "_members", "_whole")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._members: dict[Shapes, T] = {}
        self._whole: tuple[Shapes, T] | None = None

    def find(self, exact: Shapes, loose: Shapes) -> T:
        """What is known of a name, or of all; `loose` is its shape, which all of the family have."""
        if self._whole is not None:
            shapes, known = self._whole
            self._whole = (_joined(shapes, exact, loose), known)
            return known
        found = self._members.get(exact)
        if found is None:
            found = self._members[exact] = self._make()
            if len(self._members) >= MIN_ALIKE:
                found = self._join(loose)
        return found

    def _join(self, loose: Shapes) -> T:
        (shapes, known), *others = self._members.items()
        for exact, other in others:
            shapes = _joined(shapes, exact, loose)
            known.add(other)
        self._members.clear()
        self._whole = (shapes, known)
        return known

    def items(self) -> Iterable[tuple[Shapes, T]]:
        """Each name, or all as one, and what is known."""
        return list(self._members.items()) if self._whole is None else [self._whole]


def _joined(shapes: Shapes, exact: Shapes, loose: Shapes) -> Shapes:
    """Of each part what was seen, as long as that is always the same, and else the shape."""
    return tuple(
        shape if shape == other else general for shape, other, general in zip(shapes, exact, loose, strict=True)
    )
