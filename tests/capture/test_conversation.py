"""One stream as AMQP: transcripts, with `>` for what the first endpoint sent and `<` for what the second sent."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import BODY, HEARTBEAT_FRAME, encode_frame, encode_method
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicDeliver,
    BasicPublish,
    ChannelClose,
    ChannelOpen,
    ConnectionTune,
    ConnectionTuneOk,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.tally import Tally
from amqproxy.amqp091.wire import Table
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.conversation import MAX_GUESS_BYTES, Conversation
from amqproxy.capture.decoded import Decoded, DecodedProtocolHeader, SkippedBytes
from amqproxy.capture.endpoints import Endpoint
from amqproxy.capture.stream_events import Opened, StreamEnd
from tests.capture.building import address

HIGH, LOW = 40000, 5672
TUNE = encode_method(0, ConnectionTune(2047, 131072, 60))
TUNE_OK = encode_method(0, ConnectionTuneOk(2047, 4096, 60))
OPEN = encode_method(1, ChannelOpen())
ACK = encode_method(1, BasicAck(1))
CLOSE = encode_method(1, ChannelClose(404, "gone", 0, 0))
PUBLISH = Command(1, BasicPublish(exchange="e", routing_key="k"), body=b"x" * 300).encode(200)
DELIVER = Command(1, BasicDeliver("c", 1, False, "e", "k"), body=b"x").encode(0)
BODY_FRAME = encode_frame(BODY, 1, b"z" * 50)
OLD, ANCIENT, ONE, SASL, TEN = (
    b"AMQP\x01\x01\x00\x09",
    b"AMQP\x01\x01\x08\x00",
    b"AMQP\x00\x01\x00\x00",
    b"AMQP\x03\x01\x00\x00",
    b"AMQP\x01\x01\x00\x0a",
)

Step = tuple[str, bytes | int | StreamEnd]


class Stream:
    """A stream made by hand."""

    def __init__(self, ports: tuple[int, int] = (HIGH, LOW), has_handshake: bool = True) -> None:
        ends = (Endpoint(address("10.0.0.1"), ports[0]), Endpoint(address("10.0.0.2"), ports[1]))
        self.conversation = Conversation(Opened(7, 0, ends, has_handshake), Tally())
        self.passed: list[Decoded] = []

    def run(self, *steps: Step) -> "Stream":
        for ts_ns, (side, step) in enumerate(steps):
            direction = "><".index(side)
            if isinstance(step, bytes):
                self.conversation.data(direction, ts_ns, step, self.passed)
            elif isinstance(step, int):
                self.conversation.gap(direction, ts_ns, step, self.passed)
            else:
                self.conversation.end(direction, ts_ns, step, self.passed)
        return self

    @property
    def decoded(self) -> list[tuple[object, ...]]:
        """What passed: (sender, bytes), (sender, protocol, "header") or (sender, protocol, reason, offset, lost)."""
        decoded: list[tuple[object, ...]] = []
        for each in self.passed:
            assert each.stream == 7
            if isinstance(each, Amqp091DecodedFrames):
                decoded.append((each.sender, b"".join(frame.raw for frame in each.frames)))
            elif isinstance(each, DecodedProtocolHeader):
                decoded.append((each.sender, each.protocol, "header"))
            else:
                decoded.append((each.sender, each.protocol, each.code or each.reason, each.offset, each.lost))
        return decoded

    @property
    def connection(self) -> set[str]:
        return {each.connection for each in self.passed}


def decoded(*steps: Step, ports: tuple[int, int] = (HIGH, LOW), has_handshake: bool = True) -> list[tuple[object, ...]]:
    return Stream(ports, has_handshake).run(*steps).decoded


ENDS: list[Step] = [(">", StreamEnd.FIN), ("<", StreamEnd.FIN)]
GREETED = ("client", "0-9-1", "header")


# ------------------------------------------------------------------------------------------------- from the start


@pytest.mark.parametrize("ports", [(40000, 5672), (40000, 35673), (5672, 40000)])
def test_any_port_will_do(ports: tuple[int, int]) -> None:
    stream = Stream(ports).run((">", HEADER), ("<", TUNE), (">", TUNE_OK + OPEN), *ENDS)
    assert stream.decoded == [GREETED, ("server", TUNE), ("client", TUNE_OK + OPEN)]
    assert stream.connection == {f"10.0.0.1:{ports[0]}-10.0.0.2:{ports[1]}"}


def test_a_header_in_pieces_and_with_frames_behind_it() -> None:
    assert decoded((">", HEADER[:3]), (">", HEADER[3:] + OPEN[:5]), (">", OPEN[5:])) == [GREETED, ("client", OPEN)]


def test_the_limit_that_was_agreed_holds() -> None:
    large = encode_frame(BODY, 1, b"y" * 5000)
    found = decoded((">", HEADER), ("<", TUNE), (">", TUNE_OK), (">", large + ACK), ("<", large + CLOSE))
    lost = len(large)
    assert found[3:] == [
        ("client", "0-9-1", 501, 8 + len(TUNE_OK) + 3, lost),
        ("client", ACK),
        ("server", "0-9-1", 501, len(TUNE) + 3, lost),
        ("server", CLOSE),
    ]


def test_an_end_within_a_frame_is_reported() -> None:
    cut = OPEN[:-2]
    for ending, reason in (
        (StreamEnd.FIN, "the stream ends within a frame"),
        (StreamEnd.RST, "the stream was reset within a frame"),
        (StreamEnd.END, "the capture ends within a frame"),
        (StreamEnd.REUSED, "the capture ends within a frame"),
    ):
        assert decoded((">", HEADER + cut), (">", ending)) == [GREETED, ("client", "0-9-1", reason, 8, len(cut))]
    assert decoded((">", HEADER), ("<", TUNE[:3]), ("<", StreamEnd.END))[1:] == [
        ("server", "0-9-1", "the capture ends within a frame", 0, 3)
    ]


def test_a_server_that_answers_no_frames_broke_the_protocol() -> None:
    found = decoded((">", HEADER), ("<", b"HTTP/1.1 400 Bad Request\r\n\r\n"), *ENDS)
    assert found == [GREETED, ("server", "0-9-1", 501, 0, 28)]
    stream = Stream().run((">", HEADER), ("<", b"HTTP/1.1 400 Bad Request\r\n\r\n"), *ENDS)
    reasons = [each.reason for each in stream.passed if isinstance(each, SkippedBytes)]
    assert reasons == ["FRAME_ERROR - the server speaks HTTP, not AMQP 0-9-1"]


# ----------------------------------------------------------------------------------------------- other protocols


@pytest.mark.parametrize(("header", "protocol"), [(ANCIENT, "0-8"), (ONE, "1.0"), (SASL, "1.0 (SASL)")])
def test_other_versions_are_named_and_never_read_as_frames(header: bytes, protocol: str) -> None:
    """0-8 has frames of the same shape, and other methods in them."""
    found = decoded((">", header), ("<", TUNE + OPEN), (">", OPEN), ("<", ACK), *ENDS)
    reason = f"{protocol} is not decoded"
    assert found == [
        ("client", protocol, "header"),
        ("client", protocol, reason, 8, len(OPEN)),
        ("server", protocol, reason, 0, len(TUNE + OPEN + ACK)),
    ]


@pytest.mark.parametrize("cut", range(len(OLD + OPEN)))
def test_what_follows_a_header_of_0_9_is_read(cut: int) -> None:
    sent = OLD + OPEN
    found = decoded((">", sent[:cut]), (">", sent[cut:]), ("<", TUNE), (">", ACK), *ENDS)
    assert ("client", "0-9", "header") in found
    assert [each for each in found if each[0] == "client"] == [
        ("client", "0-9", "header"),
        ("client", OPEN),
        ("client", ACK),
    ]
    assert ("server", TUNE) in found


def test_a_client_of_0_9_that_is_asked_for_another_header_is_read_too() -> None:
    assert decoded((">", OLD), ("<", HEADER), (">", HEADER + OPEN), *ENDS) == [
        ("client", "0-9", "header"),
        ("server", "0-9-1", "header"),
        ("client", "0-9-1", "header"),
        ("client", OPEN),
    ]


def test_a_server_may_answer_with_another_version() -> None:
    assert decoded((">", ONE), ("<", SASL + b"\0\0\0\4more"), *ENDS) == [
        ("client", "1.0", "header"),
        ("server", "1.0 (SASL)", "header"),
        ("server", "1.0 (SASL)", "1.0 (SASL) is not decoded", 8, 8),
    ]
    assert decoded((">", HEADER), ("<", TEN), *ENDS) == [GREETED, ("server", "0-10", "header")]


def test_a_client_that_follows_the_answer_is_read() -> None:
    found = decoded((">", ONE), (">", b"early"), ("<", HEADER), (">", HEADER + OPEN), ("<", TUNE), *ENDS)
    assert found == [
        ("client", "1.0", "header"),
        ("server", "0-9-1", "header"),
        ("client", "1.0", "1.0 is not decoded", 8, 5),
        ("client", "0-9-1", "header"),
        ("client", OPEN),
        ("server", TUNE),
    ]


def test_another_protocol_is_reported_when_the_answer_is_amqp() -> None:
    found = Stream((40000, 35673)).run((">", b"HELO there\r\n"), ("<", HEADER), *ENDS)
    assert found.decoded == [
        ("client", "unknown", "header"),
        ("server", "0-9-1", "header"),
        ("client", "unknown", "unknown is not decoded", 8, 4),
    ]
    assert [each.ts_ns for each in found.passed] == [0, 1, 0]
    assert decoded((">", b"hi"), ("<", TEN), *ENDS)[:1] == [("server", "0-10", "header")]


@pytest.mark.parametrize(
    ("data", "protocol"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS"),
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"\0\0\0\x20\0\x11\0\1\0\0\0\1", "RabbitMQ stream"),
    ],
)
def test_known_protocols_are_named_on_the_ports_of_amqp(data: bytes, protocol: str) -> None:
    found = decoded((">", data), ("<", b"whatever it answers"), *ENDS, ports=(40000, 5671))
    reason = f"{protocol} is not decoded"
    assert found == [
        ("client", protocol, "header"),
        ("client", protocol, reason, 8, len(data) - 8),
        ("server", protocol, reason, 0, 19),
    ]
    elsewhere = Stream((40000, 443)).run((">", data), ("<", b"whatever it answers"), *ENDS)
    assert elsewhere.decoded == []
    assert elsewhere.conversation.is_hopeless
    assert elsewhere.conversation.is_over


def test_tls_joined_midway_is_named_too() -> None:
    found = decoded(("<", b"\x17\x03\x03\x00\x40" + bytes(64)), *ENDS, ports=(40000, 5671), has_handshake=False)
    assert found == [("server", "TLS", "TLS is not decoded", 0, 69)]


def test_other_streams_are_hopeless_as_soon_as_both_sides_are() -> None:
    stream = Stream((40000, 80)).run((">", b"GET / HTTP/1.1\r\n"))
    assert not stream.conversation.is_hopeless
    assert stream.run(("<", b"HTTP/1.1 200 OK\r\n")).conversation.is_hopeless
    silent = Stream((40000, 80)).run(*ENDS)
    assert silent.conversation.is_over
    assert silent.decoded == []


# -------------------------------------------------------------------------------------------------- joined midway


@pytest.mark.parametrize(
    ("step", "client"),
    [
        ((">", HEADER), 0),
        (("<", HEADER), 1),
        ((">", PUBLISH), 0),
        (("<", PUBLISH), 1),
        ((">", DELIVER), 1),
        (("<", DELIVER), 0),
        ((">", ACK + OPEN), 0),
    ],
)
def test_the_client_is_the_peer_that_sends_what_only_clients_send(step: Step, client: int) -> None:
    stream = Stream((33333, 44444), has_handshake=False).run(step)
    names = ["10.0.0.1:33333", "10.0.0.2:44444"]
    assert stream.connection == {f"{names[client]}-{names[1 - client]}"}
    assert stream.decoded[0][0] == ("client" if "><".index(step[0]) == client else "server")


@pytest.mark.parametrize(
    ("ports", "client"), [((5672, 40000), 1), ((40000, 5671), 0), ((5672, 100), 1), ((40000, 30000), 0), ((7, 7), 0)]
)
def test_ports_decide_where_frames_do_not(ports: tuple[int, int], client: int) -> None:
    for step in (ACK, HEARTBEAT_FRAME, CLOSE):
        stream = Stream(ports, has_handshake=False).run((">", step))
        assert stream.decoded == [("client" if client == 0 else "server", step)]


def test_frames_are_found_in_the_middle_of_a_stream() -> None:
    found = decoded(("<", BODY_FRAME[20:]), (">", ACK), ("<", DELIVER), ports=(40000, 33333), has_handshake=False)
    assert found == [
        ("client", ACK),
        ("server", "0-9-1", "the capture begins within a frame", 0, len(BODY_FRAME) - 20),
        ("server", DELIVER),
    ]


def test_nothing_is_reported_before_it_is_known_to_be_amqp() -> None:
    stream = Stream((40000, 33333), has_handshake=False).run(("<", BODY_FRAME[20:]), (">", b"neither"))
    assert stream.decoded == []
    assert not stream.conversation.is_hopeless
    stream.run(("<", DELIVER), *ENDS)
    assert stream.decoded == [
        ("server", "0-9-1", "the capture begins within a frame", 0, len(BODY_FRAME) - 20),
        ("server", DELIVER),
        ("client", "0-9-1", "the capture begins within a frame", 0, 7),
    ]


def test_a_lost_header_is_the_middle_of_a_stream() -> None:
    found = decoded((">", 8), (">", OPEN), ("<", TUNE), *ENDS, ports=(40000, 33333))
    assert found == [
        ("client", "0-9-1", "bytes are missing from the capture", 0, 8),
        ("client", OPEN),
        ("server", TUNE),
    ]
    assert decoded((">", HEADER[:5]), (">", 3), (">", OPEN))[1:] == [("client", OPEN)]


def test_the_search_for_frames_ends_where_there_are_none() -> None:
    stream = Stream((40000, 33333), has_handshake=False)
    for _ in range(MAX_GUESS_BYTES // 1000 + 2):
        stream.run((">", b"q" * 1000), ("<", b"r" * 1000))
    assert stream.conversation.is_hopeless
    late = Stream((40000, 33333), has_handshake=False)
    for _ in range(MAX_GUESS_BYTES // 1000 + 2):
        late.run((">", b"q" * 1000))
    late.run(("<", DELIVER), (">", PUBLISH), *ENDS)
    lost = (MAX_GUESS_BYTES // 1000 + 2) * 1000
    assert late.decoded == [
        ("server", DELIVER),
        ("client", "0-9-1", "the capture begins within a frame", 0, lost),
        ("client", PUBLISH),
    ]


def test_a_gap_is_reported_with_what_it_cut() -> None:
    found = decoded((">", HEADER + OPEN), (">", 10), (">", ACK), ("<", TUNE), ("<", BODY_FRAME[:20]), ("<", 30), *ENDS)
    assert found[1:] == [
        ("client", OPEN),
        ("client", "0-9-1", "bytes are missing from the capture", 8 + len(OPEN), 10),
        ("client", ACK),
        ("server", TUNE),
        ("server", "0-9-1", "bytes are missing from the capture", len(TUNE), 50),
    ]
    assert decoded((">", ANCIENT), (">", 10), (">", b"x"), (">", StreamEnd.END))[1:] == [
        ("client", "0-8", "0-8 is not decoded", 8, 11)
    ]


# ------------------------------------------------------------------------------------------------------ properties


@given(st.lists(st.integers(1, 40), max_size=20), st.sampled_from([(40000, 5672), (40000, 33333)]))
def test_how_the_bytes_come_does_not_matter(sizes: list[int], ports: tuple[int, int]) -> None:
    data = HEADER + TUNE_OK + OPEN + PUBLISH
    pieces, at = [], 0
    for size in [*sizes, len(data)]:
        pieces.append(data[at : at + size])
        at += size
    found = decoded(*[(">", piece) for piece in pieces if piece], *ENDS, ports=ports)
    assert found[0] == GREETED
    assert b"".join(each[1] for each in found[1:]) == data[8:]  # type: ignore[misc]


steps = st.tuples(
    st.sampled_from("><"),
    st.one_of(
        st.binary(min_size=1, max_size=30),
        st.integers(1, 20),
        st.sampled_from([HEADER, OLD, TEN, ACK, OPEN, DELIVER, PUBLISH[:40], TUNE_OK]),
    ),
)


@example([(">", b"\0"), ("<", b"HEAD")], True, 5672)
@given(st.lists(steps, max_size=15), st.booleans(), st.sampled_from([5672, 33333]))
def test_nothing_at_all_is_an_error(found: list[Step], has_handshake: bool, port: int) -> None:
    """And of a stream that is decoded, every byte is in a frame, in a header or counted."""
    stream = Stream((40000, port), has_handshake).run(*found, *ENDS)
    if not stream.decoded:
        return
    for side, sender in enumerate(
        ("client", "server") if "10.0.0.1:40000-" in "".join(stream.connection) else ("server", "client")
    ):
        sent = sum(
            step if isinstance(step, int) else len(step)  # type: ignore[arg-type]
            for direction, step in found
            if direction == "><"[side]
        )
        counted = 0
        for each in stream.passed:
            if each.sender != sender:
                continue
            if isinstance(each, Amqp091DecodedFrames):
                counted += sum(len(frame.raw) for frame in each.frames)
            elif isinstance(each, DecodedProtocolHeader):
                counted += len(each.data)
            else:
                counted += each.lost
        assert counted == sent


def test_the_server_sends_content_headers_above_frame_max_and_the_client_does_not() -> None:
    """RabbitMQ bounds only the bodies that it sends, and answers 501 to a client's larger header."""
    properties = Properties(headers=Table({"x": "y" * 5000}))
    deliver = Command(1, BasicDeliver("c", 1), properties, b"x").encode(0)
    publish = Command(1, BasicPublish(), properties, b"x").encode(0)
    stream = Stream().run((">", HEADER), ("<", TUNE), (">", TUNE_OK + OPEN), ("<", deliver), (">", publish))
    skipped = [(each.sender, each.code) for each in stream.passed if isinstance(each, SkippedBytes)]
    assert skipped == [("client", 501)]
    sent = [each for each in stream.passed if isinstance(each, Amqp091DecodedFrames) and each.sender == "server"]
    assert b"".join(frame.raw for each in sent for frame in each.frames) == TUNE + deliver
