"""Sizes as people write them."""

from __future__ import annotations

import pytest

from amqproxy.rules.units import byte_size, rate, seconds


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
        ("2KB", 2000),
    ],
)
def test_sizes(size: int | str, expected: int) -> None:
    assert byte_size(size) == expected


@pytest.mark.parametrize("size", [-1, True, "", "64Kib", "KiB", "1e3", "-1", "1,5MB", "64 K iB"])
def test_what_is_no_size(size: int | str) -> None:
    with pytest.raises(ValueError, match=r"not a size|negative"):
        byte_size(size)


@pytest.mark.parametrize(
    ("time", "expected"),
    [("200ms", 0.2), ("1.5s", 1.5), ("2m", 120), ("2 min", 120), ("1h", 3600), ("1d", 86400), ("7", 7), ("50us", 5e-5)],
)
def test_times(time: str, expected: float) -> None:
    assert seconds(time) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("100/s", 100),
        ("6000/m", 100),
        ("3600/h", 1),
        ("100", 100),
        ("64KiB", 65536),
        ("64KiB/s", 65536),
        ("1MB/ms", 1e9),
    ],
)
def test_rates(text: str, expected: float) -> None:
    assert rate(text) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["", "x", "1 fortnight", "-1s", "1s2", "9" * 400])
def test_what_is_no_time_or_rate(text: str) -> None:
    with pytest.raises(ValueError, match="not a time"):
        seconds(text)
    with pytest.raises(ValueError, match="not a rate"):
        rate(text or "/s")
    with pytest.raises(ValueError, match="not a rate"):
        rate("5/" + text)
