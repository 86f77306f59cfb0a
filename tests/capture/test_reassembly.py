"""TCP reassembly: whatever happens to segments, the bytes come out once and in order, and losses are counted."""

import struct
import subprocess
from collections.abc import Iterable
from itertools import count, pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqproxy.capture import reassembly as module
from amqproxy.capture.endpoints import Endpoint
from amqproxy.capture.packets import ACK, FIN, RST, SYN, ZERO_WINDOW, TCPSegment
from amqproxy.capture.reassembly import ACKNOWLEDGED_PATIENCE, Reassembler
from amqproxy.capture.stream_events import Closed, Data, Event, Gap, Opened, StreamEnd
from amqproxy.capture.warnings import CaptureWarning, WarningKind
from tests.capture import building
from tests.capture.building import address
from tests.real.require import require

CLIENT = Endpoint(address("10.0.0.1"), 40000)
SERVER = Endpoint(address("10.0.0.2"), 5672)
OTHER = Endpoint(address("10.0.0.1"), 40001)
IS_COMPILED = not module.__file__.endswith(".py")


def flow(source: Endpoint, target: Endpoint) -> bytes:
    return source.address + target.address + struct.pack(">HH", source.port, target.port)


def up(payload: bytes = b"", seq: int = 0, ack: int = 0, flags: int = ACK, missing: int = 0, client: Endpoint = CLIENT):  # type: ignore[no-untyped-def]
    """A segment from the client."""
    return TCPSegment(0, flow(client, SERVER), seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, flags, payload, missing)


def down(
    payload: bytes = b"", seq: int = 0, ack: int = 0, flags: int = ACK, missing: int = 0, client: Endpoint = CLIENT
):  # type: ignore[no-untyped-def]
    """A segment from the server."""
    return TCPSegment(0, flow(SERVER, client), seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, flags, payload, missing)


HANDSHAKE = [up(seq=999, flags=SYN), down(seq=4999, ack=1000, flags=SYN | ACK), up(seq=1000, ack=5000)]


SLOWLY = 2 * 10**9


def events_of(segments: Iterable[TCPSegment], is_finished: bool = False, pace_ns: int = 1) -> list[Event]:
    """All events; a segment comes each `pace_ns`, so that its time is its place."""
    reassembler = Reassembler()
    events: list[Event] = []
    for ts_ns, segment in zip(count(0, pace_ns), segments, strict=False):
        events += reassembler.feed(TCPSegment(ts_ns, *(getattr(segment, name) for name in segment.__match_args__[1:])))
    return events + reassembler.finish() if is_finished else events


def brief(events: Iterable[Event]) -> list[object]:
    """Events without what most tests do not look at: `b"data"`, number lost, ending; `<` before the server's."""
    found: list[object] = []
    for event in events:
        match event:
            case Data(_, direction, _, data):
                found.append(data if direction == 0 else ("<", data))
            case Gap(_, direction, _, lost):
                found.append(lost if direction == 0 else ("<", lost))
            case Closed(_, direction, _, ending):
                found.append(ending if direction == 0 else ("<", ending))
    return found


def after_handshake(*segments: TCPSegment, is_finished: bool = False) -> list[object]:
    return brief(events_of([*HANDSHAKE, *segments], is_finished))


# --------------------------------------------------------------------------------------------------------- opening


def test_a_handshake_shows_who_is_the_client() -> None:
    assert events_of(HANDSHAKE) == [Opened(0, 0, (CLIENT, SERVER), True)]
    assert events_of(HANDSHAKE[1:]) == [Opened(0, 0, (CLIENT, SERVER), True)]


def test_without_a_handshake_the_first_sender_comes_first() -> None:
    assert events_of([down(b"x", 5), up(b"y", 7)]) == [
        Opened(0, 0, (SERVER, CLIENT), False),
        Data(0, 0, 0, b"x"),
        Data(0, 1, 1, b"y"),
    ]


def test_streams_are_numbered_in_order_of_their_first_packet() -> None:
    others = [Endpoint(address("10.0.0.1"), port) for port in (1, 2, 3)]
    events = events_of([up(b"x", client=client) for client in [*others, *others]])
    assert [event.stream for event in events] == [0, 0, 1, 1, 2, 2]


def test_ipv6_and_ipv4_do_not_meet() -> None:
    six = TCPSegment(0, bytes(32) + flow(CLIENT, SERVER)[8:], 0, 0, ACK, b"six", 0)
    events = events_of([up(b"four"), six])
    assert [event.stream for event in events] == [0, 0, 1, 1]


def test_data_in_a_syn_is_the_first_data() -> None:
    events = events_of([up(b"early", seq=999, flags=SYN), up(b"later", seq=1005)])
    assert brief(events) == [b"early", b"later"]


def test_a_lost_syn_is_known_from_its_answer() -> None:
    assert brief(events_of([HANDSHAKE[1], up(b"later", 1005), up(b"first", 1000)])) == [b"first", b"later"]


def test_a_syn_that_comes_late_belongs_to_its_stream() -> None:
    answer, final = HANDSHAKE[1:]
    for order in ([answer, HANDSHAKE[0], final], [final, *HANDSHAKE[:2]], [up(b"x", 1000, 5000), *HANDSHAKE[:2]]):
        events = events_of([*order, down(b"y", 5000)])
        assert {event.stream for event in events} == {0}


# -------------------------------------------------------------------------------------------------- order and copies


def test_bytes_come_out_once_and_in_order() -> None:
    a, b, c, d = (up(bytes([97 + n]) * 3, 1000 + 3 * n) for n in range(4))
    for order in ([a, b, c, d], [b, a, d, c], [d, c, b, a], [a, a, b, b, c, d, d], [d, b, d, a, b, c]):
        assert b"".join(after_handshake(*order)) == b"aaabbbcccddd"  # type: ignore[arg-type]


def test_data_has_the_time_of_the_packet_that_completed_it() -> None:
    events = events_of([*HANDSHAKE, up(b"b", 1001), up(b"c", 1002), up(b"a", 1000)])
    assert events[1:] == [Data(0, 0, 5, b"a"), Data(0, 0, 5, b"b"), Data(0, 0, 5, b"c")]


def test_the_first_copy_wins() -> None:
    assert after_handshake(up(b"abcd", 1000), up(b"XXXXef", 1000)) == [b"abcd", b"ef"]
    late = [up(b"cd", 1002), up(b"XXXXef", 1000)]
    assert b"".join(after_handshake(*late)) == b"XXcdef"  # type: ignore[arg-type]
    islands = [up(b"b", 1001), up(b"d", 1003), up(b"XXXXX", 1000)]
    assert b"".join(after_handshake(*islands)) == b"XbXdX"  # type: ignore[arg-type]
    inside = [up(b"bcde", 1001), up(b"XX", 1002), up(b"XXXXXX", 1001), up(b"a", 1000)]
    assert b"".join(after_handshake(*inside)) == b"abcdeXX"  # type: ignore[arg-type]


def test_keep_alives_and_window_probes() -> None:
    keep_alive = [up(b"abc", 1000), up(b"\0", 1002), up(b"", 1002), up(b"def", 1003)]
    assert after_handshake(*keep_alive) == [b"abc", b"def"]
    probe = [up(b"abc", 1000), up(b"d", 1003), up(b"d", 1003), up(b"defg", 1003)]
    assert after_handshake(*probe) == [b"abc", b"d", b"efg"]


@pytest.mark.parametrize("isn", [0xFFFFFFFA, 0xFFFFFFFF, 0x7FFFFFFC])
def test_sequence_numbers_wrap_around(isn: int) -> None:
    start = isn + 1
    segments = [up(seq=isn, flags=SYN), *(up(bytes([65 + n]) * 2, start + 2 * n) for n in (1, 0, 3, 2, 5, 4))]
    segments += [up(b"gg", start + 8), up(flags=FIN | ACK, seq=start + 12)]
    found = brief(events_of(segments))
    assert b"".join(found[:-1]) == b"AABBCCDDEEFF"  # type: ignore[arg-type]
    assert found[-1] == StreamEnd.FIN


def test_directions_are_independent() -> None:
    found = after_handshake(up(b"b", 1001), down(b"x", 5000, 1000), down(b"z", 5002, 1000), up(b"a", 1000, 5001))
    assert found == [("<", b"x"), b"a", b"b"]


# ------------------------------------------------------------------------------------------------------------- gaps


def test_an_acknowledged_hole_is_given_up_after_a_little_patience() -> None:
    hole = [up(b"late", 1010), down(seq=5000, ack=1014)]
    assert after_handshake(*hole) == []
    idle = [down(seq=5000, ack=1014)] * ACKNOWLEDGED_PATIENCE
    assert after_handshake(*hole, *idle) == [10, b"late"]


def test_an_acknowledgement_may_overtake_what_it_acknowledges() -> None:
    assert after_handshake(up(b"b", 1001), down(seq=5000, ack=1002), up(b"a", 1000, 5000)) == [b"a", b"b"]


def test_a_hole_that_is_not_acknowledged_is_waited_for() -> None:
    busy = [down(b"y", 5000 + n, 1000) for n in range(20)]
    found = after_handshake(up(b"b", 1001), *busy, up(b"a", 1000))
    assert found[-2:] == [b"a", b"b"]


def test_each_hole_is_given_up_by_itself() -> None:
    segments = [up(b"b", 1001), up(b"d", 1003), *[down(seq=5000, ack=1002)] * 5]
    assert after_handshake(*segments) == [1, b"b"]
    assert after_handshake(*segments, up(b"c", 1002)) == [1, b"b", b"c", b"d"]


def test_what_comes_after_it_was_given_up_is_old() -> None:
    segments = [up(b"b", 1001), *[down(seq=5000, ack=1002)] * 5, up(b"a", 1000), up(b"c", 1002)]
    assert after_handshake(*segments) == [1, b"b", b"c"]


@pytest.mark.parametrize(("limit", "value"), [("MAX_HELD_BYTES", 8), ("MAX_HELD_PIECES", 2), ("MAX_HELD_IN_ALL", 8)])
def test_a_hole_with_too_much_behind_it_is_given_up(monkeypatch: pytest.MonkeyPatch, limit: str, value: int) -> None:
    monkeypatch.setattr(module, limit, value)
    held = [up(b"xxxx", 1001 + 4 * n) for n in range(3)]
    assert after_handshake(*held[:2]) == []
    assert after_handshake(*held) == [1, b"xxxx", b"xxxx", b"xxxx"]


def test_the_end_gives_every_hole_up() -> None:
    found = after_handshake(up(b"b", 1001), up(b"d", 1003), down(b"y", 5001), is_finished=True)
    assert found == [1, b"b", 1, b"d", StreamEnd.END, ("<", 1), ("<", b"y"), ("<", StreamEnd.END)]


def test_bytes_that_only_the_receiver_saw_are_lost() -> None:
    assert after_handshake(down(seq=5000, ack=1100), is_finished=True)[0] == 100


def test_a_fin_that_only_the_receiver_saw_is_not_a_byte() -> None:
    found = after_handshake(up(b"x", 1000), down(seq=5000, ack=1002), is_finished=True)
    assert found == [b"x", StreamEnd.END, ("<", StreamEnd.END)]
    both = after_handshake(up(b"x", 1000), down(seq=5000, ack=1012, flags=FIN | ACK), is_finished=True)
    assert both == [b"x", ("<", StreamEnd.FIN), 10, StreamEnd.END]


def test_what_a_snapshot_length_cut_is_lost() -> None:
    assert after_handshake(up(b"ab", 1000, missing=8), up(b"cd", 1010)) == [b"ab", 8, b"cd"]
    assert after_handshake(up(b"cd", 1010), up(b"ab", 1000, missing=8)) == [b"ab", 8, b"cd"]
    assert after_handshake(up(b"", 1000, missing=8), up(b"cd", 1008)) == [8, b"cd"]
    held = after_handshake(up(b"cd", 1004, missing=2), up(b"efgh", 1008), up(b"abcd", 1000))
    assert held == [b"abcd", b"cd", 2, b"efgh"]


# --------------------------------------------------------------------------------------------------- joined midway


def test_joined_midway_the_first_bytes_seen_are_the_first() -> None:
    assert brief(events_of([up(b"b", 1001), up(b"a", 1000), up(b"c", 1002)])) == [b"b", b"c"]


def test_joined_midway_a_segment_without_bytes_sets_where_to_begin() -> None:
    assert brief(events_of([up(seq=1000), up(b"cc", 1002), up(b"aa", 1000)])) == [b"aa", b"cc"]
    assert brief(events_of([up(seq=1000), up(b"aa", 1001)])) == [b"aa"], "it was a keep-alive"
    assert brief(events_of([up(seq=1000), up(b"aa", 990)])) == [b"aa"], "nothing was delivered yet"


def test_a_jump_larger_than_any_window_is_ahead() -> None:
    """A capture that paused while gigabytes went by."""
    there = 1002 + (3 << 29)
    found = brief(events_of([up(b"ab", 1000), up(b"cd", there), *[down(ack=there + 2)] * 5, up(b"ef", there + 2)]))
    assert found == [b"ab", 3 << 29, b"cd", b"ef"]


# ---------------------------------------------------------------------------------------------------------- closing


def test_fin_closes_its_direction() -> None:
    found = after_handshake(
        up(b"bye", 1000, 5000, FIN | ACK),
        down(b"more", 5000, 1004),
        down(b"", 5004, 1004, FIN | ACK),
        up(b"", 1004, 5005),
        up(b"late", 1004, 5005),
    )
    assert found == [b"bye", StreamEnd.FIN, ("<", b"more"), ("<", StreamEnd.FIN)]


def test_fin_waits_for_what_comes_before_it() -> None:
    assert after_handshake(up(b"", 1003, flags=FIN | ACK), up(b"abc", 1000)) == [b"abc", StreamEnd.FIN]
    acknowledged = [down(seq=5000, ack=1004)] * 5
    assert after_handshake(up(b"", 1003, flags=FIN | ACK), *acknowledged) == [3, StreamEnd.FIN]
    assert after_handshake(up(b"", 1003, flags=FIN | ACK), is_finished=True)[:2] == [3, StreamEnd.FIN]


def test_rst_ends_both_directions_its_senders_first() -> None:
    found = after_handshake(up(b"b", 1001), down(b"n", 5001), up(seq=1002, flags=RST), down(b"y", 5002))
    assert found == [1, b"b", StreamEnd.RST, ("<", 1), ("<", b"n"), ("<", StreamEnd.RST)]


def test_an_rst_comes_at_the_time_of_its_packet() -> None:
    ends = [
        event for event in events_of([*HANDSHAKE, down(seq=5000, flags=RST), up(b"x", 1000)]) if type(event) is Closed
    ]
    assert ends == [Closed(0, 1, 3, StreamEnd.RST), Closed(0, 0, 3, StreamEnd.RST)]


def test_bytes_after_a_reset_are_left_out_and_counted_once() -> None:
    notices: list[CaptureWarning] = []
    reassembler = Reassembler("file", notices.append)
    late = [up(b"late", 1003), up(b"late", 1003), up(b"abc", 1000), down(b"x", 5000)]
    for segment in [*HANDSHAKE, up(b"abc", 1000), down(seq=5000, flags=RST), *late]:
        reassembler.feed(segment)
    reassembler.finish()
    assert [(notice.kind, notice.text) for notice in notices] == [
        (WarningKind.IGNORED, "5 bytes that came after the reset of their connection were left out")
    ]


def test_an_rst_of_the_past_is_not_taken() -> None:
    """RFC 9293, section 3.10.7.4: outside the window it is dropped."""
    talk = [up(b"abc", 1000), down(seq=5000, ack=1003)]
    forged = [up(seq=seq, ack=77, flags=RST | ACK) for seq in (1002, 1000, 999, 1000 - 2**29)]
    assert after_handshake(*talk, *forged, up(b"d", 1003), down(b"x", 5000)) == [b"abc", b"d", ("<", b"x")]


def test_an_rst_ahead_of_all_bytes_is_not_taken_where_the_stream_goes_on() -> None:
    """RFC 5961, section 3.2: in the window, but not at the next byte, it is answered and dropped."""
    goes_on = [up(b"abc", 1000), down(b"x", 5000)]
    for seq in (1001, 1500, 2**31):
        events = events_of([*HANDSHAKE, up(seq=seq, ack=77, flags=RST | ACK), *goes_on], pace_ns=SLOWLY)
        assert brief(events) == [b"abc", ("<", b"x")]
        assert brief(events_of([*HANDSHAKE, up(seq=seq, flags=RST)], is_finished=True)) == [
            StreamEnd.RST,
            ("<", StreamEnd.RST),
        ]


def test_an_rst_that_overtook_what_was_sent_before_it_waits_for_that() -> None:
    late = [up(seq=1006, ack=5000, flags=RST | ACK), up(b"abc", 1000), up(b"def", 1003)]
    assert after_handshake(*late) == [b"abc", b"def", StreamEnd.RST, ("<", StreamEnd.RST)]
    acknowledged = [up(seq=1006, flags=RST), down(seq=5000, ack=1006)]
    assert after_handshake(*acknowledged) == [6, StreamEnd.RST, ("<", StreamEnd.RST)]


def test_an_rst_behind_bytes_that_the_capture_lacks_is_the_end_where_nothing_follows() -> None:
    events = events_of([*HANDSHAKE, up(seq=1500, flags=RST), up(b"x", 7, client=OTHER)], True, SLOWLY)
    assert Closed(0, 0, 6 * 10**9, StreamEnd.RST) in events
    assert Closed(0, 1, 6 * 10**9, StreamEnd.RST) in events
    reused = after_handshake(up(seq=1500, flags=RST), up(seq=77, flags=SYN))
    assert reused == [StreamEnd.RST, ("<", StreamEnd.RST)]


def test_after_a_fin_an_rst_ends_what_is_left() -> None:
    fin = up(b"", 1000, 5000, FIN | ACK)
    assert after_handshake(fin, down(b"x", 5000, 1001), up(seq=1001, flags=RST)) == [
        StreamEnd.FIN,
        ("<", b"x"),
        ("<", StreamEnd.RST),
    ]
    behind_a_hole = up(b"", 1003, 5000, FIN | ACK)
    assert after_handshake(behind_a_hole, down(seq=5000, flags=RST)) == [
        3,
        StreamEnd.FIN,
        ("<", StreamEnd.RST),
    ]


def test_a_stream_that_one_end_has_closed_ends_with_its_last_segment() -> None:
    """The capture may lack the FIN of the other end, and go on with other streams."""
    talk = [up(b"bye", 1000, 5000, FIN | ACK), down(b"more", 5000, 1004)]
    events = events_of([*HANDSHAKE, *talk, up(b"x", 7, client=OTHER), up(b"y", 8, client=OTHER)], is_finished=True)
    assert [event for event in events if type(event) is Closed] == [
        Closed(0, 0, 3, StreamEnd.FIN),
        Closed(0, 1, 4, StreamEnd.END),
        Closed(1, 0, 6, StreamEnd.END),
        Closed(1, 1, 6, StreamEnd.END),
    ]


def test_a_refused_connection() -> None:
    refused = [up(seq=999, flags=SYN), down(seq=0, ack=1000, flags=RST | ACK)]
    assert brief(events_of(refused)) == [("<", StreamEnd.RST), StreamEnd.RST]


def test_after_a_reset_the_ports_may_be_reused() -> None:
    again = [up(seq=77, flags=SYN), down(seq=88, ack=78, flags=SYN | ACK), up(b"new", 78, 89)]
    events = events_of([*HANDSHAKE, down(seq=5000, flags=RST), *again])
    assert events[-2:] == [Opened(1, 4, (CLIENT, SERVER), True), Data(1, 0, 6, b"new")]


def test_a_closed_stream_keeps_its_late_packets() -> None:
    closing = [up(seq=1000, flags=RST), *[down(seq=5000, ack=1000)] * 3]
    assert {event.stream for event in events_of([*HANDSHAKE, *closing])} == {0}


# ------------------------------------------------------------------------------------------------------ ports reused


def test_a_new_syn_begins_a_new_stream() -> None:
    events = events_of([*HANDSHAKE, up(b"old", 1000), up(seq=77, flags=SYN), up(b"new", 78), down(seq=5, ack=78)])
    assert events[1:] == [
        Data(0, 0, 3, b"old"),
        Closed(0, 0, 4, StreamEnd.REUSED),
        Closed(0, 1, 4, StreamEnd.REUSED),
        Opened(1, 4, (CLIENT, SERVER), True),
        Data(1, 0, 5, b"new"),
    ]


def test_a_syn_that_comes_twice_does_not() -> None:
    events = events_of(
        [HANDSHAKE[0], HANDSHAKE[0], HANDSHAKE[1], HANDSHAKE[1], HANDSHAKE[2], HANDSHAKE[0], up(b"x", 1000)]
    )
    assert events[1:] == [Data(0, 0, 6, b"x")]


def test_after_fin_the_ports_may_be_reused_from_either_side() -> None:
    closing = [up(seq=1000, flags=FIN | ACK), down(seq=5000, ack=1001, flags=FIN | ACK), up(seq=1001, ack=5001)]
    back = [down(seq=99, flags=SYN), up(seq=199, ack=100, flags=SYN | ACK), down(b"hello", 100, 200)]
    events = events_of([*HANDSHAKE, *closing, *back])
    assert events[-2:] == [Opened(1, 6, (SERVER, CLIENT), True), Data(1, 0, 8, b"hello")]


def test_a_syn_after_a_stream_joined_midway_begins_a_new_one() -> None:
    events = events_of(
        [down(b"x", 5000), up(seq=77, flags=SYN), down(seq=99, ack=78, flags=SYN | ACK), down(b"y", 100, 78)]
    )
    assert [type(event).__name__ for event in events] == ["Opened", "Data", "Closed", "Closed", "Opened", "Data"]
    assert events[-1] == Data(1, 1, 3, b"y")


def test_an_answer_alone_may_begin_a_new_stream() -> None:
    events = events_of([*HANDSHAKE, down(b"x", 5000), down(seq=123, ack=456, flags=SYN | ACK), up(b"y", 456, 124)])
    assert events[-2:] == [Opened(1, 4, (CLIENT, SERVER), True), Data(1, 0, 5, b"y")]


# ---------------------------------------------------------------------------------------------------------- bounds


def test_an_ignored_stream_delivers_nothing_and_still_closes() -> None:
    reassembler = Reassembler()
    for segment in [*HANDSHAKE, up(b"b", 1001)]:
        reassembler.feed(segment)
    reassembler.ignore(0)
    assert reassembler.feed(up(b"a", 1000)) == []
    assert reassembler.feed(down(b"x", 5000)) == []
    assert brief(reassembler.feed(up(seq=1005, flags=FIN))) == [StreamEnd.FIN]
    assert brief(reassembler.feed(down(seq=5001, flags=RST))) == [("<", StreamEnd.RST)]
    reassembler.ignore(0)
    reassembler.ignore(99)
    assert reassembler.finish() == []


def test_too_many_streams_give_the_quietest_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_STREAMS", 8)
    notices: list[CaptureWarning] = []
    reassembler = Reassembler("file", notices.append)
    clients = [Endpoint(address("10.0.0.1"), port) for port in range(10)]
    for client in clients[:8]:
        reassembler.feed(up(b"x", client=client))
    reassembler.feed(up(b"x", 1, client=clients[0]))
    events = reassembler.feed(up(b"x", client=clients[8]))
    assert [event.stream for event in events if isinstance(event, Closed)] == [1, 1, 2, 2]
    assert brief(events[:1]) == [StreamEnd.FORGOTTEN]
    assert [notice.kind for notice in notices] == [WarningKind.STREAMS]


@pytest.mark.skipif(IS_COMPILED, reason="the tables of a compiled class cannot be looked into")
def test_closed_streams_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CLOSED_STREAMS", 4)
    reassembler = Reassembler()
    for port in range(100):
        client = Endpoint(address("10.0.0.1"), port)
        reassembler.feed(up(seq=1, flags=SYN, client=client))
        reassembler.feed(down(seq=0, ack=2, flags=RST | ACK, client=client))
    assert len(reassembler._directions) == 8
    assert len(reassembler._closed) == 4
    assert not reassembler._open


# ------------------------------------------------------------------------------------------------------- properties


@st.composite
def shredded(draw: st.DrawFn) -> tuple[int, bytes, list[tuple[int, bytes]]]:
    """A first sequence number, bytes, and segments that cover them: cut, overlapping, copied, in any order."""
    base = draw(st.one_of(st.integers(0, 2**32 - 1), st.integers(2**32 - 200, 2**32 - 1)))
    whole = draw(st.binary(min_size=1, max_size=300))
    cuts = sorted({0, len(whole), *draw(st.lists(st.integers(0, len(whole)), max_size=12))})
    pieces = [
        (max(0, start - draw(st.integers(0, 20))), stop + draw(st.integers(0, 20))) for start, stop in pairwise(cuts)
    ]
    pieces += draw(st.lists(st.sampled_from(pieces), max_size=5))
    order = draw(st.permutations(pieces))
    return base, whole, [(base + start, whole[start:stop]) for start, stop in order]


@given(shredded(), st.integers(0, 400))
@example((2**32 - 2, b"abcdef", [(2**32 - 2, b"ab"), (2**32, b"cd"), (2**32 + 2, b"ef")]), 0)
def test_however_a_stream_is_cut_it_comes_out_whole(cut: tuple[int, bytes, list[tuple[int, bytes]]], ack: int) -> None:
    """Acknowledgements at any place do no harm as long as no hole is older than their patience."""
    base, whole, pieces = cut
    segments = [up(seq=base - 1, flags=SYN), *(up(data, seq) for seq, data in pieces)]
    segments.append(up(seq=base + len(whole), flags=FIN))
    found = brief(events_of(segments))
    assert found[-1] == StreamEnd.FIN
    assert b"".join(found[:-1]) == whole  # type: ignore[arg-type]
    early = [up(seq=base - 1, flags=SYN), down(ack=base + ack, seq=1)]
    early += [up(data, seq) for seq, data in sorted(pieces)]
    assert b"".join(brief(events_of(early))) == whole  # type: ignore[arg-type]


@given(shredded(), st.integers(0, 300), st.integers(1, 40))
def test_of_a_stream_with_a_hole_exactly_the_hole_is_lost(
    cut: tuple[int, bytes, list[tuple[int, bytes]]], hole: int, size: int
) -> None:
    base, whole, pieces = cut
    hole %= len(whole)
    stop = min(hole + size, len(whole))
    segments = [up(seq=base - 1, flags=SYN)]
    for seq, data in pieces:
        start = seq - base
        for low, high in ((0, hole), (stop, len(whole))):
            kept = data[max(low - start, 0) : max(high - start, 0)]
            if kept:
                segments.append(up(kept, base + max(low, start)))
    segments.append(up(seq=base + len(whole), flags=FIN))
    found = brief(events_of(segments, is_finished=True))[:-2]
    rebuilt, lost = bytearray(), 0
    for event in found:
        if isinstance(event, int):
            assert len(rebuilt) == hole
            lost += event
            rebuilt += bytes(event)
        else:
            rebuilt += event  # type: ignore[operator]
    assert lost == stop - hole
    assert rebuilt == whole[:hole] + bytes(lost) + whole[stop:]


@given(shredded(), st.integers(0, 60))
def test_a_snapshot_length_loses_what_it_cuts_and_no_more(
    cut: tuple[int, bytes, list[tuple[int, bytes]]], snap: int
) -> None:
    base, whole, pieces = cut
    segments = [up(seq=base - 1, flags=SYN)]
    segments += [up(data[:snap], seq, missing=max(0, len(data) - snap)) for seq, data in pieces]
    found = brief(events_of(segments))
    rebuilt = b"".join(bytes(event) if isinstance(event, int) else event for event in found)  # type: ignore[misc]
    assert len(rebuilt) == len(whole)
    assert all(ours in (0, theirs) for ours, theirs in zip(rebuilt, whole, strict=True))


segments = st.builds(
    TCPSegment,
    st.just(0),
    st.sampled_from([flow(CLIENT, SERVER), flow(SERVER, CLIENT), flow(CLIENT, CLIENT)]),
    st.one_of(st.integers(0, 40), st.integers(0, 2**32 - 1)),
    st.one_of(st.integers(0, 40), st.integers(0, 2**32 - 1)),
    st.integers(0, 255),
    st.binary(max_size=20),
    st.integers(0, 3),
)


@given(st.lists(segments, max_size=40))
def test_no_segments_at_all_are_an_error(found: list[TCPSegment]) -> None:
    """Whatever comes, a direction's bytes come before its end, and every stream is opened and closed."""
    events = events_of(found, is_finished=True)
    opened: set[int] = set()
    over: set[tuple[int, int]] = set()
    for event in events:
        if isinstance(event, Opened):
            assert event.stream == len(opened)
            opened.add(event.stream)
            continue
        place = (event.stream, event.direction)
        assert event.stream in opened
        assert place not in over
        if isinstance(event, Closed):
            over.add(place)
        elif isinstance(event, Data):
            assert event.data
        else:
            assert event.lost > 0
    assert over == {(stream, direction) for stream in opened for direction in (0, 1)}


# ---------------------------------------------------------------------------------------------- tshark as the judge


@pytest.mark.real
def test_tshark_follows_the_same_streams(tmp_path: Path) -> None:
    """Numbers and bytes of streams, where segments are out of order, copied and overlap, and ports are reused."""
    tshark = require("tshark")
    from amqproxy.capture.files import read_packets
    from amqproxy.capture.packets import Dissector

    made: list[TCPSegment] = []
    for round_, port in enumerate((40000, 40001, 40000)):
        client = Endpoint(address("10.0.0.1"), port)
        base = 2**32 - 150 + round_ * 1000
        words = [bytes([65 + n]) * 30 for n in range(10)]
        made.append(up(seq=base - 1, flags=SYN, client=client))
        made.append(down(seq=99, ack=base, flags=SYN | ACK, client=client))
        for n in (0, 2, 1, 1, 3, 5, 6, 4, 7, 9, 8):
            made.append(up(words[n], base + 30 * n, 100, client=client))
            made.append(down(b"%d" % n, 100 + n, base + 30, client=client) if n < 1 else up(b"", base, client=client))
        made.append(up(seq=base + 300, ack=101, flags=FIN | ACK, client=client))
        made.append(down(seq=101, ack=base + 301, flags=FIN | ACK, client=client))
    packets = []
    for n, segment in enumerate(made):
        source, target = segment.flow[:4], segment.flow[4:8]
        ports = struct.unpack(">HH", segment.flow[8:])
        body = building.tcp(
            segment.payload,
            source=ports[0],
            target=ports[1],
            seq=segment.seq,
            ack=segment.ack,
            flags=segment.flags,
        )
        texts = [".".join(map(str, each)) for each in (source, target)]
        packets.append((n * 10**6, building.ethernet(building.ipv4(body, source=texts[0], target=texts[1]))))
    path = tmp_path / "streams.pcap"
    path.write_bytes(building.pcap(packets))

    dissector, reassembler = Dissector(), Reassembler()
    ours: dict[int, bytes] = {}
    for packet in read_packets(path):
        found = dissector.segment(packet)
        assert found is not None
        for event in reassembler.feed(found):
            if isinstance(event, Data) and event.direction == 0:
                ours[event.stream] = ours.get(event.stream, b"") + event.data
    for stream in range(3):
        follow = [tshark, "-r", path, "-q", "-o", "tcp.reassemble_out_of_order:TRUE", "-z", f"follow,tcp,raw,{stream}"]
        lines = subprocess.run(follow, check=True, capture_output=True, text=True).stdout.splitlines()
        theirs = b"".join(bytes.fromhex(line) for line in lines[6:-1] if not line.startswith("\t"))
        assert ours[stream] == theirs == b"".join(words)
    assert set(ours) == {0, 1, 2}


# ------------------------------------------------------------------------------------------------------- zero windows


def test_how_long_a_window_was_closed_at_most() -> None:
    closed = down(seq=5000, ack=1001, flags=ACK | ZERO_WINDOW)
    segments = [*HANDSHAKE, up(b"x", 1000, 5000), closed, closed, up(b"y", 1001, 5000)]
    events = events_of(segments, is_finished=True)
    assert [(each.direction, each.stalled_ns) for each in events if isinstance(each, Closed)] == [(0, 0), (1, 2)]
    opened = [*segments, down(seq=5000, ack=1002)]
    briefly = down(seq=5000, ack=1002, flags=ACK | ZERO_WINDOW)
    for reopened in (opened, [*opened, briefly, opened[-1]]):
        ends = [each for each in events_of(reopened, is_finished=True) if isinstance(each, Closed)]
        assert [(each.stalled_ns, each.stalled_until_ns) for each in ends] == [(0, 0), (3, 7)]
    reset = [*segments, up(seq=1002, flags=RST)]
    assert {each.stalled_ns for each in events_of(reset) if isinstance(each, Closed)} == {0, 3}
