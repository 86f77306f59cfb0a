"""Sizes, times and rates in human notation: "64KiB", "200ms", "6000/m"."""

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
    """Return the bytes of 65536, "64KiB" or "1.5 MB"; raise `ValueError` for other texts."""
    if isinstance(size, int) and not isinstance(size, bool):
        if size < 0:
            raise ValueError(f"{size} is negative")
        return size
    found = _measured(str(size), UNITS)
    if found is None:
        raise ValueError(f"`{size}` is not a size: write bytes, or a number and one of {', '.join(list(UNITS)[1:])}")
    return int(found)


def seconds(time: str) -> float:
    """Return the seconds of "200ms", "1.5s" or "2m"; raise `ValueError` for other texts."""
    found = _measured(time, TIMES)
    if found is None:
        raise ValueError(f"`{time}` is not a time: write seconds, or a number and one of {', '.join(list(TIMES)[1:])}")
    return found


def rate(text: str) -> float:
    """Return the amount per second of "100/s", "6000/m" or "64KiB/s"; the default time unit is a second."""
    amount, slash, unit = text.partition("/")
    found, unit = _measured(amount, UNITS), unit.strip()
    if found is None or (slash and (not unit or unit not in TIMES)):
        raise ValueError(f"`{text}` is not a rate: write a number per second, or 100/s, 6000/m, 64KiB/s")
    return found / (TIMES[unit] if slash else 1.0)


def _measured(text: str, units: Mapping[str, float]) -> float | None:
    """Return the number in front of a unit times the unit; `None` for other texts."""
    form = _FORM.fullmatch(text.strip())
    if form is None or form[2] not in units:
        return None
    found = float(form[1]) * units[form[2]]
    return found if math.isfinite(found) else None


# --- numbers of the config's that may be written so

_QUANTITIES = {"seconds": seconds, "bytes": byte_size}
_PATTERNS = {"seconds": _TIME, "bytes": _SIZE}
IN_SCHEMA = "x-quantity"
"""Schema key of a number that names the quantity as which it may be written: see `may_be_text`."""


def duration(**bounds: Any) -> msgspec.Meta:
    """Return the metadata of a number of seconds that may be written as a time; `bounds` as for `msgspec.Meta`."""
    return _written_as("seconds", bounds)


def size(**bounds: Any) -> msgspec.Meta:
    """Return the metadata of a number of bytes, which may be written as a size."""
    return _written_as("bytes", bounds)


def _written_as(quantity: str, bounds: dict[str, Any]) -> msgspec.Meta:
    extra = {IN_SCHEMA: quantity}
    meta: msgspec.Meta = msgspec.Meta(**bounds, extra=extra, extra_json_schema=extra)
    return meta


def number(quantity: str, text: str) -> float | int:
    """Return the number that a quantity's text stands for, as `int` if it is whole."""
    found: float = _QUANTITIES[quantity](text)
    return int(found) if found == int(found) else found


def may_be_text(schema: Any) -> Any:
    """Return a JSON Schema in which numbers that are quantities may be texts too."""
    if isinstance(schema, list):
        return [may_be_text(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: may_be_text(each) for key, each in schema.items() if key != IN_SCHEMA}
    if isinstance(schema.get(IN_SCHEMA), str):
        found["type"] = [found["type"], "string"]
        found["pattern"] = _PATTERNS[schema[IN_SCHEMA]]
    return found
