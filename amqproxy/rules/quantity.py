"""Sizes as people write them: "64KiB"."""

from __future__ import annotations

import re

UNITS = {"": 1, "B": 1, "kB": 1000, "KiB": 1 << 10, "MB": 10**6, "MiB": 1 << 20, "GB": 10**9, "GiB": 1 << 30}

_FORM = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")


def octets(size: int | str) -> int:
    """The octets that are meant by 65536, "64KiB" or "1.5 MB"; `ValueError` when none are."""
    if isinstance(size, int) and not isinstance(size, bool):
        if size < 0:
            raise ValueError(f"{size} is less than nothing")
        return size
    form = _FORM.fullmatch(str(size).strip())
    if form is None or form[2] not in UNITS:
        raise ValueError(f"`{size}` is no size: write octets, or a number and one of {', '.join(list(UNITS)[1:])}")
    return int(float(form[1]) * UNITS[form[2]])
