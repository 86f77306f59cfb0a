"""Times as people write them."""

from __future__ import annotations

import pytest

from amqproxy.capture.decoded import StreamEnded
from amqproxy.capture.selection.time_window import DAY, SECOND, Moment, TimeWindow, moment

NOON = 1_769_860_800 * SECOND  # 2026-01-31T12:00:00Z


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-31T12:00:00Z", Moment(NOON)),
        ("2026-01-31 12:00:00", Moment(NOON)),
        ("2026-01-31T13:00:00.123456789+01:00", Moment(NOON + 123_456_789)),
        ("2026-01-31", Moment(NOON - DAY // 2)),
        ("1769860800.5", Moment(NOON + SECOND // 2)),
        ("+2.5", Moment(5 * SECOND // 2, "capture")),
        ("12:00", Moment(DAY // 2, "day")),
        ("12:00:00.000000001", Moment(DAY // 2 + 1, "day")),
    ],
)
def test_a_moment(text: str, expected: Moment) -> None:
    assert moment(text) == expected


@pytest.mark.parametrize("text", ["", "noon", "25:00", "12:60", "-1", "2026-13-01", "1e9", "12:00:00.1234567891"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        moment(text)


def test_a_window_is_from_its_start_on_and_before_its_end() -> None:
    first = [StreamEnded(NOON, 0, "", "")]
    for start, end in (("12:00:01", "12:00:03"), ("+1", "+3"), ("2026-01-31T12:00:01", f"{NOON // SECOND + 3}")):
        window = TimeWindow(moment(start), moment(end))
        assert list(window.begun(first)) == first
        held = [second for second in range(5) if window.holds(NOON + second * SECOND)]
        assert held == [1, 2]
    assert TimeWindow().holds(0)
