"""Times of the day, against the calendar of the standard library."""

from __future__ import annotations

import datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.rules.matching.clock_time import WEEKDAYS, ClockTime, seconds_of_day

times = st.integers(0, 24 * 60).map(lambda minutes: f"{minutes // 60:02}:{minutes % 60:02}")


@given(
    st.integers(0, 4 * 10**9),
    times,
    times,
    st.lists(st.sampled_from(WEEKDAYS), min_size=1).map(tuple),
    st.integers(-12, 14),
)
def test_it_holds_at_the_times_of_the_calendar(time: int, start: str, to: str, days: Any, ahead: int) -> None:
    offset = f"{'-' if ahead < 0 else '+'}{abs(ahead):02}:00"
    there = datetime.datetime.fromtimestamp(time, datetime.timezone(datetime.timedelta(hours=ahead)))
    second = there.hour * 3600 + there.minute * 60 + there.second
    today, yesterday = WEEKDAYS[there.weekday()] in days, WEEKDAYS[there.weekday() - 1] in days
    begins, ends = seconds_of_day(start), seconds_of_day(to)
    if begins < ends:
        expected = begins <= second < ends and today
    else:
        expected = (second >= begins and today) or (second < ends and yesterday)
    assert ClockTime(start=start, to=to, days=days, offset=offset).holds(time + 0.5) is expected


def test_without_more_it_always_holds() -> None:
    assert ClockTime().holds(0.0)
    assert ClockTime().holds(86_399.9)


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ({"from": "25:00"}, ".from: there is no 25:00 in a day - at `$`"),
        ({"to": "24:01"}, ".to: there is no 24:01 in a day"),
        ({"to": "12:60"}, ".to: there is no 12:60 in a day"),
        ({"from": "9:00"}, ".from: `9:00` is not of the form HH:MM or HH:MM:SS"),
        ({"from": 1320}, ".from: YAML reads an unquoted time as a number: put it in quotes"),
        ({"days": []}, ".days: the list is empty"),
        ({"days": ["monday"]}, "Invalid enum value 'monday' - at `$.days[0]`"),
        ({"offset": "CET"}, ".offset: `CET` is not of the form +02:00"),
        ({"until": "24:00"}, "unknown field `until`"),
    ],
)
def test_what_is_no_time(value: dict[str, Any], what: str) -> None:
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.convert(value, ClockTime)
    assert what.removesuffix(" - at `$`") in str(raised.value)
