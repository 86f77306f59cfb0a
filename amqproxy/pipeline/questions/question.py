"""Definition of a question."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

Value = str | int | float | None

_TABLE = re.compile(r"\{(?:(earlier|all)_)?([a-z_]+)\}")
_PARAMETER = re.compile(r"(?<!:):([a-z_]+)")

DAY = 86_400
"""Seconds of a day."""

MOST = 10**12
"""Bound of the numbers of options, which queries multiply."""


class Option(msgspec.Struct, frozen=True):
    """An option of a question: a parameter of the query. Without a default, it must be given if `is_required`.

    A value has the type of `default`, or is text without one. `choices` are all allowed values, if any.
    """

    name: str
    help: str
    default: Value = None
    choices: tuple[str, ...] = ()
    is_required: bool = False


class Table(NamedTuple):
    """A table as a query names it: `earlier` for the time before, `all` for all until the end, "" for the requested
    span.
    """

    when: str
    name: str

    @property
    def placeholder(self) -> str:
        return f"{self.when}_{self.name}" if self.when else self.name


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A named question: `about`, whose first line is its title, and the query that answers it.

    `seconds` is the default length of its span; `limit` the number of rows shown. With `needs_one`, one of the options
    must be given.
    """

    name: str
    about: str
    sql: str
    options: tuple[Option, ...] = ()
    seconds: int = 7 * DAY
    limit: int = 50
    needs_one: bool = False

    @property
    def title(self) -> str:
        """The first line of `about`, within a sentence."""
        line = self.about.partition("\n")[0].removesuffix(".")
        return line[:1].lower() + line[1:]

    @property
    def tables(self) -> tuple[Table, ...]:
        """Return the tables that the query reads."""
        found = {Table(when or "", name): None for when, name in _TABLE.findall(self.sql)}
        return tuple(found)

    @property
    def parameters(self) -> frozenset[str]:
        """Return the names of the parameters in the query."""
        return frozenset(_PARAMETER.findall(self.sql))

    @property
    def is_comparing(self) -> bool:
        """Whether it also reads an earlier span."""
        return any(each.when == "earlier" for each in self.tables)

    def values(self, given: dict[str, Value]) -> dict[str, Value]:
        """Return the value of each option; raise `ValueError` for a missing, unknown or invalid one."""
        known = {each.name: each for each in self.options}
        unknown = [name for name in given if name not in known]
        if unknown:
            offered = ", ".join(f"--{_dashed(name)}" for name in known) or "no options"
            raise ValueError(f"{self.name} has no option --{_dashed(unknown[0])}; it has {offered}")
        if self.needs_one and all(value is None for value in given.values()):
            raise ValueError(f"{self.name} needs {' or '.join(f'--{_dashed(name)}' for name in known)}")
        return {name: _value(self.name, each, given.get(name)) for name, each in known.items()}


def _value(question: str, option: Option, given: Value) -> Value:
    shown = f"--{_dashed(option.name)}"
    if given is None:
        if option.is_required:
            raise ValueError(f"{question} needs {shown}: {option.help}")
        return option.default
    if option.choices and given not in option.choices:
        raise ValueError(f"{shown} must be one of {', '.join(option.choices)}, not {given!r}")
    if isinstance(option.default, (int, float)) and isinstance(given, str):
        try:
            number = type(option.default)(given)
        except ValueError:
            raise ValueError(f"{shown} must be a number, not {given!r}") from None
        if not abs(number) < MOST:  # nor is NaN
            raise ValueError(f"{shown} must be a number below {MOST}, not {given!r}")
        return number
    return given


def _dashed(name: str) -> str:
    return name.replace("_", "-")
