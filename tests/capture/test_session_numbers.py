"""Connections have the numbers of the proxy's log, wherever a capture is shown."""

import asyncio
from pathlib import Path

import pytest

from amqproxy.capture.decode import read_decoded
from amqproxy.capture.endpoints import Endpoint
from amqproxy.capture.packet_comment import session_comment
from amqproxy.capture.selection.session_legs import SessionLegs
from amqproxy.capture.session_numbers import SessionNumbers
from amqproxy.capture.stream_events import Opened
from amqproxy.dashboard.capture_source import CaptureSource
from amqproxy.taps.leg_number import UPSTREAM, shown_number
from tests.views.recorded import recording

ENDS = (Endpoint(b"\0\0\0\1", 1), Endpoint(b"\0\0\0\2", 2))


def opened(stream: int, session: int | None, leg: str = "client") -> Opened:
    comments = () if session is None else (session_comment(session, leg, "a-b", session="s", is_tls=False),)
    return Opened(stream, 0, ENDS, True, leg, comments)


@pytest.mark.parametrize(
    ("sessions", "numbers"),
    [
        ([17, 18, 5], [17, 18, 5]),
        ([None, None, None], [0, 1, 2]),
        ([1, 2, 1, 3], [1, 2, 3, 4]),  # two runs
        ([3, None, None, 3], [3, 1, 2, 4]),
    ],
)
def test_numbers_are_those_of_sessions_and_unique(sessions: list[int | None], numbers: list[int]) -> None:
    given = SessionNumbers()
    assert [given.number(opened(stream, session)) for stream, session in enumerate(sessions)] == numbers


def test_a_capture_without_sessions_is_numbered_as_before() -> None:
    path = Path("captures/confirms.pcapng")
    assert [each.stream for each in read_decoded(path, by_session=True)] == [each.stream for each in read_decoded(path)]


@pytest.mark.parametrize(
    ("opens", "numbers"),
    [
        (["1 client", "1 upstream", "2 client", "2 upstream"], [1, 1, 2, 2]),
        (["1 client", "2 client", "2 upstream", "1 upstream"], [1, 2, 2, 1]),
        (["1 client", "1 upstream", "2 client", "1 client", "1 upstream"], [1, 1, 2, 3, 3]),  # two runs
        (["1 upstream", "2 upstream"], [1, 2]),
    ],
)
def test_legs_that_are_merged_have_one_number(opens: list[str], numbers: list[int]) -> None:
    given = SessionNumbers(merges_legs=True)
    legs = [each.split() for each in opens]
    assert [given.number(opened(at, int(session), leg)) for at, (session, leg) in enumerate(legs)] == numbers


def test_legs_that_are_told_apart_have_one_number_but_for_a_constant() -> None:
    given = SessionNumbers()
    opens = [(1, "client"), (2, "client"), (2, "upstream"), (1, "upstream"), (1, "client")]
    numbers = [given.number(opened(at, session, leg)) for at, (session, leg) in enumerate(opens)]
    assert numbers == [1, 2, UPSTREAM + 2, UPSTREAM + 1, 3]
    assert SessionLegs().client_stream(UPSTREAM + 2) == 2
    assert [shown_number(each) for each in numbers] == [1, 2, 2, 1, 3]


def test_an_opened_recording_of_both_legs_has_the_numbers_of_the_log(tmp_path: Path) -> None:
    (tmp_path / "both.pcapng").write_bytes(recording(3))
    source = CaptureSource(1, tmp_path / "both.pcapng", 1 << 24, lambda: None)
    asyncio.run(source.run())
    assert [each.decoded.stream for each in source.ring.snapshot() if each.decoded.leg == "upstream"] == [1, 2, 3]
    assert list(source.observed.connections.seen) == [1, 2, 3]
