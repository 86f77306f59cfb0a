"""Names of the same shape, merged once there are several."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from amqproxy.rules.matching.generated_names import Shape

MIN_ALIKE = 3
"""Names differing only in short numbers that are taken as generated."""


class Addable(Protocol):
    """Facts about a name that facts about another can be added to."""

    def add(self, other: Any, /) -> None: ...


T = TypeVar("T", bound=Addable)

Shapes = tuple[Shape, ...]


class NameFamily(Generic[T]):
    """Facts about names that differ only in short numbers: one entry per name, a single one from `MIN_ALIKE` names on.

    A name may have several parts; a part that is equal in all of them stays as it is.
    """

    __slots__ = ("_make", "_members", "_whole")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._members: dict[Shapes, T] = {}
        self._whole: tuple[Shapes, T] | None = None

    def find(self, exact: Shapes, loose: Shapes) -> T:
        """Return the facts about a name, or those of the whole family; `loose` is the shape shared by the family."""
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
        """Return each name, or all as one, with its facts."""
        return list(self._members.items()) if self._whole is None else [self._whole]


def _joined(shapes: Shapes, exact: Shapes, loose: Shapes) -> Shapes:
    """Return each part's literal value if all names agree on it, otherwise its shape."""
    return tuple(
        shape if shape == other else general for shape, other, general in zip(shapes, exact, loose, strict=True)
    )
