"""Sizes as people write them."""

from __future__ import annotations

import pytest

from amqproxy.rules.quantity import octets


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, 0),
        (65536, 65536),
        ("65536", 65536),
        ("64KiB", 65536),
        ("1.5 MB", 1_500_000),
        ("1GiB", 1 << 30),
        ("2kB", 2000),
    ],
)
def test_sizes(size: int | str, expected: int) -> None:
    assert octets(size) == expected


@pytest.mark.parametrize("size", [-1, True, "", "64Kib", "KiB", "1e3", "-1", "1,5MB", "64 K iB"])
def test_what_is_no_size(size: int | str) -> None:
    with pytest.raises(ValueError, match=r"no size|less than nothing"):
        octets(size)
