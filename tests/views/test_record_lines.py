"""Lines of frames, messages and findings."""

from __future__ import annotations

import io
from collections import Counter
from typing import Any

import msgspec
import pytest

from amqproxy.capture.decode import BOTH_LEGS, read_decoded
from amqproxy.capture.selection.selection import Selection
from amqproxy.capture.selection.session_legs import SessionLegs
from amqproxy.cli.printing import renderer
from amqproxy.taps.observer import ObserverSettings
from amqproxy.views.record_lines import FrameJSONLines, FrameLines, ReportLines
from tests.views.recorded import recording


def views() -> list[Any]:
    """Views of both legs, with JSON of each record."""
    settings = ObserverSettings(messages=True, findings=False)
    return [
        FrameLines(renderer(json=True), Selection(legs=SessionLegs()), has_both_legs=True),
        FrameJSONLines(Selection(legs=SessionLegs()), has_both_legs=True),
        ReportLines(
            lambda report: report.to_json().decode(), Selection(legs=SessionLegs()), None, settings, lambda _: None
        ),
    ]


@pytest.mark.parametrize("place", range(3))
def test_both_legs_of_a_session_have_the_number_that_the_log_has(place: int) -> None:
    passed = read_decoded(io.BytesIO(recording(3)), leg=BOTH_LEGS, by_session=True)
    lines = [each for line in views()[place].lines(passed) for each in line.splitlines()]
    found = Counter((each["stream"], each["connection"]) for each in map(msgspec.json.decode, lines))
    assert sorted(number for number, _ in found) == [1, 1, 2, 2, 3, 3]
    assert all(name.startswith(("10.0.0.1:400", "10.0.0.2:900")) and f"{number}-" in name for number, name in found)
