"""Sizes, times and rates as people write them: "64KiB", "200ms", "6000/m"."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import msgspec

UNITS = {
    "": 1,
    "B": 1,
    "kB": 1000,
    "KB": 1000,
    "KiB": 1 << 10,
    "MB": 10**6,
    "MiB": 1 << 20,
    "GB": 10**9,
    "GiB": 1 << 30,
}
TIMES = {"": 1.0, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}

_FORM = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")
_SIZE = r"^\s*\d+(\.\d+)?\s*([kKMG]i?B|B)?\s*$"
_TIME = r"^\s*\d+(\.\d+)?\s*(us|ms|s|m|min|h|d)?\s*$"


def byte_size(size: int | str) -> int:
    """The bytes that are meant by 65536, "64KiB" or "1.5 MB"; `ValueError` when none are."""
    if isinstance(size, int) and not isinstance(size, bool):
        if size < 0:
            raise ValueError(f"{size} is less than nothing")
        return size
    found = _measured(str(size), UNITS)
    if found is None:
        raise ValueError(f"`{size}` is no size: write bytes, or a number and one of {', '.join(list(UNITS)[1:])}")
    return int(found)


def seconds(time: str) -> float:
    """The seconds that are meant by "200ms", "1.5s" or "2m"; `ValueError` when none are."""
    found = _measured(time, TIMES)
    if found is None:
        raise ValueError(f"`{time}` is no time: write seconds, or a number and one of {', '.join(list(TIMES)[1:])}")
    return found


def rate(text: str) -> float:
    """How much a second is meant by "100/s", "6000/m" or "64KiB/s"; without a time unit, it is a second."""
    amount, slash, unit = text.partition("/")
    found, unit = _measured(amount, UNITS), unit.strip()
    if found is None or (slash and (not unit or unit not in TIMES)):
        raise ValueError(f"`{text}` is no rate: write how much a second, or such as 100/s, 6000/m or 64KiB/s")
    return found / (TIMES[unit] if slash else 1.0)


def _measured(text: str, units: Mapping[str, float]) -> float | None:
    """The number in front of a unit, times what that is; None where there is no such thing."""
    form = _FORM.fullmatch(text.strip())
    if form is None or form[2] not in units:
        return None
    found = float(form[1]) * units[form[2]]
    return found if math.isfinite(found) else None


# --- numbers of the config's that may be written so

_QUANTITIES = {"seconds": seconds, "bytes": byte_size}
_PATTERNS = {"seconds": _TIME, "bytes": _SIZE}
IN_SCHEMA = "x-quantity"
"""Under this key, the schema of a number says which quantity it may be written as: see `may_be_text`."""


def duration(**bounds: Any) -> msgspec.Meta:
    """Of a number of seconds: it may be written as a time. `bounds` are those of `msgspec.Meta`."""
    return _written_as("seconds", bounds)


def size(**bounds: Any) -> msgspec.Meta:
    """Of a number of bytes: it may be written as a size."""
    return _written_as("bytes", bounds)


def _written_as(quantity: str, bounds: dict[str, Any]) -> msgspec.Meta:
    extra = {IN_SCHEMA: quantity}
    meta: msgspec.Meta = msgspec.Meta(**bounds, extra=extra, extra_json_schema=extra)
    return meta


def number(quantity: str, text: str) -> float | int:
    """The number that such a text means; a whole one where it is."""
    found: float = _QUANTITIES[quantity](text)
    return int(found) if found == int(found) else found


def may_be_text(schema: Any) -> Any:
    """A JSON Schema, in which numbers that are quantities may be texts, too."""
    if isinstance(schema, list):
        return [may_be_text(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: may_be_text(each) for key, each in schema.items() if key != IN_SCHEMA}
    if isinstance(schema.get(IN_SCHEMA), str):
        found["type"] = [found["type"], "string"]
        found["pattern"] = _PATTERNS[schema[IN_SCHEMA]]
    return found
