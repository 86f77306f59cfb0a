"""What tests of dissections of both protocols have in common."""

from __future__ import annotations

from typing import Any

from amqproxy.dashboard.field import SAFE_INTEGER, Field


def check_tiling(fields: list[Field] | tuple[Field, ...], start: int, end: int) -> None:
    """The fields lie one behind the other without a gap; bits share a byte."""
    if all(field.type == "bit" for field in fields):
        assert {(field.start, field.end) for field in fields} == {(start, end)}
        return
    at = start
    for field in fields:
        assert field.start == at
        assert field.end > at
        at = field.end
        if field.children:
            check_tiling(field.children, field.start, field.end)
    assert at == end


def as_shown(value: Any) -> Any:
    """A value of a record, as it is shown where JavaScript would not have it exactly."""
    if isinstance(value, dict):
        return {name: as_shown(each) for name, each in value.items()}
    if isinstance(value, list):
        return [as_shown(each) for each in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > SAFE_INTEGER:
        return str(value)
    return value


def filters_in(fields: list[Field] | tuple[Field, ...]) -> list[str]:
    return [each.filter for each in fields if each.filter] + [
        filter for each in fields for filter in filters_in(each.children)
    ]
