"""Texts in pages: escaped, visible, and not too long; numbers with their units."""

from __future__ import annotations

import pytest

from amqproxy.export.shown_text import MAX_TEXT, byte_count, duration, moment, number, shown


def test_no_character_is_markup_or_invisible() -> None:
    assert shown('<a href="x">&\'') == "&lt;a href=&quot;x&quot;&gt;&amp;&#x27;"
    assert shown("a\nb\u202ec\udcff\x00é☃") == "a\\nb\\u202ec\\udcff\\x00é☃"
    assert len(shown("x" * 10_000)) == MAX_TEXT


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 µs"), (1.5e-6, "1.5 µs"), (0.00123456, "1.23 ms"), (2, "2 s"), (86_400, "86,400 s")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1536, "1.5 KiB"),
        (1023 * 1024, "1,023 KiB"),
        (5 << 40, "5 TiB"),
        (5 << 50, "5,120 TiB"),
    ],
)
def test_byte_counts(size: int, text: str) -> None:
    assert byte_count(size) == text


def test_numbers_and_moments() -> None:
    assert [number(each) for each in (0, 1234567, 0.5, 123.4)] == ["0", "1,234,567", "0.5", "123"]
    assert moment(1_700_000_000_123_456_789) == "2023-11-14 22:13:20.123"
    assert moment(-1) == "1969-12-31 23:59:59.999"
    assert moment(2**63 * 10**9) == "9223372036854775808.000"
