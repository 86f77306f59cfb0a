"""The rows of the frames that findings name."""

from __future__ import annotations

from collections import defaultdict

import pytest

from amqproxy.amqp091.frame import HEARTBEAT, METHOD, Frame, encode_method, every_frame
from amqproxy.amqp091.methods import ChannelOpen
from amqproxy.dashboard.frame_numbers import FrameNumbers
from tests.dashboard.conftest import CAPTURES, Dashboard

pytestmark = pytest.mark.once


def frames(*kinds: int) -> list[Frame]:
    found = {METHOD: encode_method(1, ChannelOpen("")), HEARTBEAT: bytes((HEARTBEAT, 0, 0, 0, 0, 0, 0, 0xCE))}
    return every_frame(b"".join(found[kind] for kind in kinds), 0)


def test_heartbeats_are_rows_and_have_no_number() -> None:
    numbers = FrameNumbers()
    numbers.take(1, "client", frames(METHOD, HEARTBEAT, METHOD), 10)
    numbers.take(1, "server", frames(METHOD), 13)
    numbers.take(1, "client", frames(METHOD, METHOD), 14)
    assert [numbers.row_of(1, "client", number) for number in range(6)] == [None, 10, 12, 14, 15, None]
    assert numbers.row_of(1, "server", 1) == 13
    numbers.end(1)
    assert numbers.row_of(1, "client", 1) is None
    numbers.take(1, "client", frames(METHOD), 20)
    assert numbers.row_of(1, "client", 1) == 20


def test_the_time_of_the_last_reads_tells_whether_two_counts_agree() -> None:
    numbers = FrameNumbers()
    numbers.take(1, "client", frames(METHOD, METHOD), 10, 100)
    numbers.take(1, "client", frames(METHOD), 12, 200)
    assert [numbers.was_read_at(1, "client", number, 100) for number in (1, 2, 3, 4)] == [True, True, False, False]
    assert numbers.was_read_at(1, "client", 3, 200)
    assert not numbers.was_read_at(2, "client", 1, 100)


def test_what_is_kept_is_bounded_and_the_newest_is_known() -> None:
    numbers = FrameNumbers(max_runs=4)
    for each in range(100):
        numbers.take(each % 3, "client", frames(METHOD), 10 * each)
    assert [numbers.row_of(99 % 3, "client", number) for number in (1, 34, 35)] == [None, 990, None]


def test_where_there_are_too_many_the_newer_half_is_known_still() -> None:
    numbers = FrameNumbers(max_runs=100)
    for each in range(101):
        numbers.take(1, "client", frames(METHOD), 10 * each)
    assert [numbers.row_of(1, "client", number) for number in (1, 50, 51, 101)] == [None, None, 500, 1000]


def test_frames_that_show_a_finding_are_linked(dashboard: Dashboard) -> None:
    """In each capture of ours, a frame that is counted by hand is in the row that the finding names."""
    names = [each.stem for each in sorted(CAPTURES.glob("*.pcapng"))]
    names += ["brokerj9.2__jms-010-errors", "brokerj9.2__jms-010-request-reply"]
    client = dashboard(*names)
    linked = 0
    for source in range(len(names)):
        findings = client.get(f"/api/v1/sources/{source}/findings").json()["rows"]
        if not any(each.get("evidence") for each in findings):
            continue
        counted: dict[tuple[int, str], list[int]] = defaultdict(list)
        for row in client.get(f"/api/v1/sources/{source}/frames", params={"limit": 1000}).json()["rows"]:
            if row["type"] in ("method", "header", "body", "control", "command"):
                counted[row["stream"], row["from"]].append(row["seq"])
        for finding in findings:
            for each in finding.get("evidence", ()):
                stream = each.get("stream", finding["stream"])
                assert each["seq"] == counted[stream, each["from"]][each["number"] - 1], finding
                linked += 1
    assert linked > 3
