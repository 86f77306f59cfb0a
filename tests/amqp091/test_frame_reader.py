"""Bytes to frames, in the order that a channel allows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091 import frame_reader as module
from amqproxy.amqp091.errors import FrameError, ProtocolError, UnexpectedFrame
from amqproxy.amqp091.frame import (
    BODY,
    HEADER,
    HEARTBEAT,
    HEARTBEAT_FRAME,
    METHOD,
    Frame,
    encode_frame,
    encode_method,
)
from amqproxy.amqp091.frame_reader import EVERY_METHOD, ContentState, FrameReader
from amqproxy.amqp091.methods import (
    BY_INDEX,
    BY_NAME,
    BasicAck,
    BasicPublish,
    BasicQos,
    ChannelClose,
    ChannelCloseOk,
    ConnectionClose,
    ConnectionTuneOk,
    Method,
)
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.amqp091.tally import METHOD_COUNT
from tests.amqp091 import strategies
from tests.amqp091.samples import MESSAGE, NOTHING, PUBLISH, QOS, body, header, raw_header, raws, reader_with_lanes
from tests.amqp091.tracking import is_mid_content


def test_a_reader_hands_over_the_received_bytes_themselves() -> None:
    reader = FrameReader()
    reader.feed(MESSAGE)
    assert reader.taken is MESSAGE


def test_taken_is_the_whole_frames_and_held_the_rest() -> None:
    reader = FrameReader()
    assert raws(reader.feed(QOS + PUBLISH[:9])) == [QOS]
    assert (bytes(reader.taken), reader.held, reader.offset) == (QOS, PUBLISH[:9], len(QOS))
    assert reader.feed(PUBLISH[9:12]) == []
    assert (bytes(reader.taken), reader.held) == (b"", PUBLISH[:12])
    (frame,) = reader.feed(PUBLISH[12:])
    assert (frame.raw, frame.offset) == (PUBLISH, len(QOS))
    assert (bytes(reader.taken), reader.held, reader.offset) == (PUBLISH, b"", len(QOS + PUBLISH))
    assert reader.feed(b"") == []


def test_bytes_read_elsewhere_are_counted() -> None:
    reader = FrameReader()
    reader.skip(8)
    (frame,) = reader.feed(QOS)
    assert (frame.offset, reader.offset) == (8, 8 + len(QOS))


FAULTS = {
    "an unknown type": (b"\x04" + QOS[1:], 501, 0, "0.0"),
    "type 0": (b"\x00" + QOS[1:], 501, 0, "0.0"),
    "another end": (QOS[:-1] + b"\xcd", 501, len(QOS) - 1, "0.0"),
    "a method frame of nothing": (encode_frame(METHOD, 1, b""), 501, 7, "0.0"),
    "a method frame of three bytes": (encode_frame(METHOD, 1, b"\0\x3c\0"), 501, 7, "0.0"),
    "an unknown class": (encode_frame(METHOD, 1, b"\0\x63\0\x0a"), 503, 7, "99.10"),
    "an unknown method": (encode_frame(METHOD, 1, b"\0\x3c\0\x63"), 503, 7, "60.99"),
    "a class past 127": (encode_frame(METHOD, 1, b"\0\xbc\0\x0a"), 503, 7, "188.10"),
    "a class past 255": (encode_frame(METHOD, 1, b"\1\x3c\0\x0a"), 503, 7, "316.10"),
    "a method past 127": (encode_frame(METHOD, 1, b"\0\x3c\0\x8a"), 503, 7, "60.138"),
    "a method past 255": (encode_frame(METHOD, 1, b"\0\x3c\1\x0a"), 503, 7, "60.266"),
    "a heartbeat on a channel": (encode_frame(HEARTBEAT, 1, b""), 505, 1, "0.0"),
    "a heartbeat with a payload": (encode_frame(HEARTBEAT, 0, b"x"), 501, 3, "0.0"),
    "a size of 4 GiB": (b"\x03\0\1\xff\xff\xff\xff", 501, 3, "0.0"),
    "a header where a method is due": (header(1), 505, 0, "0.0"),
    "a body where a method is due": (body(b"x"), 505, 0, "0.0"),
    "a body after the last": (MESSAGE + body(b""), 505, len(MESSAGE), "0.0"),
    "an empty body for a body of nothing": (PUBLISH + header(0) + body(b""), 505, len(PUBLISH + header(0)), "0.0"),
    "a body where a header is due": (PUBLISH + body(b"x"), 505, len(PUBLISH), "60.40"),
    "a method where a header is due": (PUBLISH + QOS, 505, len(PUBLISH), "60.40"),
    "a close where a header is due": (PUBLISH + encode_method(1, ChannelClose()), 505, len(PUBLISH), "60.40"),
    "a second header": (PUBLISH + header(5) * 2, 505, len(PUBLISH + header(5)), "60.40"),
    "a method where a body is due": (PUBLISH + header(5) + PUBLISH, 505, len(PUBLISH + header(5)), "60.40"),
    "a header of eleven bytes": (PUBLISH + raw_header("003c 0000", 7), 501, len(PUBLISH) + 7, "60.40"),
    "a header of another class": (PUBLISH + raw_header("0032 0000", 10), 505, len(PUBLISH) + 7, "60.40"),
    "a header with a weight": (PUBLISH + raw_header("003c 0001", 10), 505, len(PUBLISH) + 7, "60.40"),
    "a body longer than its header announced": (
        PUBLISH + header(5) + body(b"hell") + body(b"o!"), 501, len(PUBLISH + header(5) + body(b"hell")) + 7, "60.40",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("data", "code", "offset", "method"), FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("size", [1, 5, 1000])
def test_faults_name_their_place(data: bytes, code: int, offset: int, method: str, size: int) -> None:
    reader = reader_with_lanes(1, 2)
    before = encode_method(2, BasicAck()) * 2
    found: list[Frame] = []
    taken = fed = b""
    counted = 0
    for piece in strategies.pieces(before + data, [size]):
        fed += piece
        found += reader.feed(piece)
        taken += bytes(reader.taken)
        counted += reader.taken_frames
        if reader.error is not None:
            break
    error = reader.error
    assert error is not None
    assert (error.code, error.offset, f"{error.class_id}.{error.method_id}") == (code, len(before) + offset, method)
    assert error.scope == "connection"
    assert b"".join(raws(found)) == taken, "what came before the fault is handed over"
    assert taken.startswith(before)
    assert reader.offset == len(taken)
    assert counted == reader.frames == len(found)
    assert taken + reader.refused == fed
    assert reader.held == b""
    with pytest.raises(ProtocolError):
        reader.feed(b"")


@given(st.lists(st.integers(1, 40), min_size=1, max_size=20))
def test_what_is_lent_is_as_what_is_given(sizes: list[int]) -> None:
    """Frames that share what was fed are the same frames, however that is cut, and can be decoded without a copy."""
    data = (MESSAGE + encode_method(1, BasicAck(7, True))) * 3
    giving, lending = reader_with_lanes(1), reader_with_lanes(1)
    lending.zero_copy = True
    for piece in strategies.pieces(data, sizes):
        for given_, lent in zip(giving.feed(piece), lending.feed(piece), strict=True):
            assert lent.length() == len(given_.raw) == given_.size + 8
            assert lent.is_as(given_.raw)
            assert not lent.is_as(given_.raw[:-1])
            assert not lent.is_as(given_.raw[:-1] + b"?")
            assert lent.announced() == given_.body_size
            assert lent.byte_at(0) == given_.kind
            if given_.kind == METHOD and given_.index == BasicAck.index:
                assert lent.long_long_at(11) == lent.delivery_tag == 7
            assert lent.payload_bytes() == given_.payload
            assert (lent.raw, lent.value) == (given_.raw, given_.value)
        assert bytes(lending.taken) == bytes(giving.taken)


# --- limits


@pytest.mark.parametrize(("size", "is_taken"), [(4096, True), (4097, False)])
def test_frame_max_bounds_the_payload_as_in_rabbitmq(size: int, is_taken: bool) -> None:
    reader = reader_with_lanes(1)
    reader.feed(PUBLISH + header(10_000))
    frame = body(bytes(size))
    reader.feed(frame[:7])
    assert (reader.error is None) is is_taken, "the head alone decides"
    if is_taken:
        assert raws(reader.feed(frame[7:])) == [frame]
    else:
        assert isinstance(reader.error, FrameError)
        assert reader.error.text == "a frame of 4097 bytes, where 4096 is the most"


@pytest.mark.parametrize(
    ("size", "text"),
    [(4097, ""), (9000, ""), (9001, "a frame of 9001 bytes, where 9000 is the most")],
)
def test_content_headers_have_a_bound_of_their_own(size: int, text: str) -> None:
    """RabbitMQ sends content headers above frame_max, and no other frames."""
    reader = FrameReader(frame_max=4096, header_max=9000)
    reader.open_content_state(1)
    payload = header(10_000)[7:-1]
    whole = encode_frame(HEADER, 1, payload + bytes(size - len(payload)))
    assert raws(reader.feed(PUBLISH + whole[:7])) == [PUBLISH]
    assert (reader.error.text if reader.error else "") == text
    if not text:
        assert raws(reader.feed(whole[7:])) == [whole]
        reader.feed(body(bytes(4097))[:7])
        assert reader.error is not None
        assert reader.error.text == "a frame of 4097 bytes, where 4096 is the most"


def test_no_limit_is_one_too() -> None:
    reader = FrameReader(frame_max=0)
    reader.feed(b"\x03\0\1" + module.MAX_FRAME.to_bytes(4, "big"))
    assert reader.error is None
    reader = FrameReader(frame_max=0)
    reader.feed(b"\x03\0\1" + (module.MAX_FRAME + 1).to_bytes(4, "big"))
    assert isinstance(reader.error, FrameError)


def test_tune_ok_sets_the_limit_for_what_follows_it() -> None:
    tune_ok = encode_method(0, ConnectionTuneOk(10, 50_000, 0))
    large = PUBLISH + header(50_001) + body(bytes(50_000))
    reader = reader_with_lanes(1)
    assert len(reader.feed(tune_ok + large + body(b"x"))) == 5
    assert reader.frame_max == 50_000
    reader = reader_with_lanes(1, frame_max=0)
    reader.feed(tune_ok + large[: -len(body(bytes(50_000)))] + body(bytes(50_001)))
    assert isinstance(reader.error, FrameError)


def test_a_frame_that_comes_byte_by_byte_takes_time_in_proportion() -> None:
    """Half a megabyte in single bytes: seconds, where each byte would copy all before it."""
    reader = reader_with_lanes(1, frame_max=0)
    reader.feed(PUBLISH + header(500_000))
    whole = body(bytes(500_000))
    found = [frame for octet in whole for frame in reader.feed(bytes((octet,)))]
    assert raws(found) == [whole]


# --- order


def test_contents_of_two_channels_may_mix() -> None:
    other = encode_method(2, BasicPublish()) + header(1, 2)
    data = PUBLISH + other + HEARTBEAT_FRAME + header(5) + body(b"x", 2) + body(b"") + body(b"hello") + QOS
    reader = reader_with_lanes(1, 2)
    assert len(reader.feed(data)) == 9
    assert reader.error is None
    assert not is_mid_content(reader)


@pytest.mark.parametrize(("data", "is_within"), [(PUBLISH, True), (PUBLISH + header(1), True), (MESSAGE, False)])
def test_the_middle_of_a_content(data: bytes, is_within: bool) -> None:
    reader = reader_with_lanes(1)
    reader.feed(data)
    assert is_mid_content(reader) is is_within


def test_a_body_of_64_bits() -> None:
    reader = reader_with_lanes(1)
    reader.feed(PUBLISH + header(2**64 - 1) + body(b"x"))
    assert reader.error is None
    assert reader.content_states[1].remaining == 2**64 - 2


@pytest.mark.parametrize("ending", [ChannelClose(), ChannelCloseOk()])
def test_a_lane_ends_with_its_channel(ending: ChannelClose | ChannelCloseOk) -> None:
    reader = reader_with_lanes(1, 2)
    frames = reader.feed(QOS + encode_method(1, ending) + body(b"whatever") + encode_method(2, BasicAck()))
    assert [frame.is_in_order for frame in frames] == [True, True, False, True]
    assert list(reader.content_states) == [2]


def test_all_lanes_end_with_the_connection() -> None:
    reader = reader_with_lanes(1, 2)
    frames = reader.feed(PUBLISH + encode_method(0, ConnectionClose()) + PUBLISH + body(b"", 2))
    assert [frame.is_in_order for frame in frames] == [True, False, False, False]
    assert not reader.content_states


def test_frames_of_a_channel_without_a_content_state_are_handed_over_unchecked() -> None:
    reader = reader_with_lanes(1)
    reader.want(NOTHING, content=False)
    frames = reader.feed(body(b"x", 3) + MESSAGE + encode_method(3, BasicAck()))
    assert [(frame.channel, frame.is_in_order) for frame in frames] == [(3, False), (3, False)]


def test_a_lane_can_be_walked_by_hand() -> None:
    content_state = ContentState()
    frames = FrameReader().feed(MESSAGE)
    for frame, expected in zip(frames, (HEADER, BODY, METHOD), strict=True):
        content_state.advance(frame)
        assert content_state.expects == expected
        assert frame.is_in_order
    with pytest.raises(UnexpectedFrame, match="expected a method frame, got a content body frame") as caught:
        content_state.advance(frames[2])
    assert caught.value.offset == len(PUBLISH + header(5))
    assert caught.value.channel == 1


# --- what is wanted, and what is counted


@pytest.mark.parametrize(
    ("names", "content", "expected"),
    [
        ([], False, []),
        (["basic.qos"], False, [QOS]),
        (["basic.publish"], False, [PUBLISH]),
        ([], True, [header(5), body(b"hello"), HEARTBEAT_FRAME]),
    ],
)
def test_only_what_is_wanted_is_handed_over(names: list[str], content: bool, expected: list[bytes]) -> None:
    wanted = bytearray(NOTHING)
    for name in names:
        wanted[BY_NAME[name].index] = 1
    reader = reader_with_lanes(1)
    reader.want(bytes(wanted), content=content)
    data = MESSAGE + QOS + HEARTBEAT_FRAME
    assert raws(reader.feed(data)) == expected
    assert reader.taken is data


# --- properties


def read_all(
    data: bytes, sizes: list[int], *, content_states: bool
) -> tuple[list[tuple[bytes, int]], tuple[object, ...], bytes]:
    """The frames, the error, and the bytes taken, when they come in pieces of these sizes."""
    reader = reader_with_lanes(*((1, 2) if content_states else ()))
    frames: list[Frame] = []
    taken = b""
    for piece in strategies.pieces(data, sizes):
        frames += reader.feed(piece)
        taken += bytes(reader.taken)
        if reader.error is not None:
            break
    error = reader.error
    if error is None:
        assert taken + reader.held == data
    assert data.startswith(taken)
    assert reader.offset == len(taken)
    fault = (error.code, error.offset, error.class_id, error.method_id, error.text) if error else ()
    return [(frame.raw, frame.offset) for frame in frames], fault, taken


@given(strategies.streams(), strategies.splits)
def test_a_sound_stream_gives_its_frames_however_it_is_cut(data: bytes, sizes: list[int]) -> None:
    frames, error, taken = read_all(data, [len(data)] if data else [], content_states=True)
    assert not error
    assert b"".join(raw for raw, _ in frames) == taken == data
    assert read_all(data, sizes, content_states=True) == (frames, error, taken)


@given(st.one_of(st.binary(max_size=200), strategies.mutated(strategies.streams())), strategies.splits, st.booleans())
def test_any_bytes_end_alike_however_they_are_cut(data: bytes, sizes: list[int], content_states: bool) -> None:
    whole = read_all(data, [len(data)] if data else [], content_states=content_states)
    assert read_all(data, sizes, content_states=content_states) == whole
    for raw, offset in whole[0]:
        value = strategies.attempt(getattr, Frame(raw, offset), "value")
        if isinstance(value, ProtocolError):
            assert value.offset is not None
            assert offset <= value.offset <= offset + len(raw) or len(raw) < 20
        else:
            assert isinstance(value, (Method, ContentHeader, bytes))


@given(
    st.lists(st.tuples(st.sampled_from([METHOD, HEADER, BODY, HEARTBEAT]), st.integers(0, 3), st.binary(max_size=30)))
)
def test_any_payloads(frames: list[tuple[int, int, bytes]]) -> None:
    data = b"".join(encode_frame(*frame) for frame in frames)
    assert read_all(data, [], content_states=True) == read_all(data, [len(data)] if data else [], content_states=True)


def test_every_method_is_wanted_at_first() -> None:
    data = b"".join(encode_method(1, cls()) for cls in BY_INDEX)
    assert [frame.index for frame in FrameReader().feed(data)] == list(range(len(EVERY_METHOD)))


# --- a quantum


def messages(count: int) -> bytes:
    return b"".join(
        encode_method(1, BasicPublish(routing_key=f"{n}")) + header(5) + body(b"hello") for n in range(count)
    )


def test_a_quantum_ends_with_a_command():
    reader = reader_with_lanes(1)
    reader.quantum = 4
    data = messages(5)
    size = len(data) // 5
    frames = reader.feed(data)
    assert [frame.kind for frame in frames] == [METHOD, HEADER, BODY] * 2
    assert (reader.is_paused, bytes(reader.taken), reader.offset) == (True, data[: 2 * size], 2 * size)
    assert reader.content_states[1].contents == 2
    assert len(reader.resume()) == 6
    assert bytes(reader.taken) == data[2 * size : 4 * size]
    assert len(reader.resume()) == 3
    assert (reader.is_paused, reader.offset) == (False, len(data))
    assert reader.resume() == []


def test_a_command_in_very_many_frames_is_cut_too():
    reader = reader_with_lanes(1)
    reader.quantum = 4
    frames = reader.feed(PUBLISH + header(5) + body(b"") * 100)
    assert (len(frames), reader.is_paused) == (16, True)


def test_what_is_not_handed_over_does_not_count():
    reader = reader_with_lanes(1)
    reader.want(NOTHING, content=False)
    reader.quantum = 1
    assert reader.feed(messages(100)) == []
    assert not reader.is_paused


def test_what_is_fed_to_a_reader_that_is_paused_comes_behind():
    reader = reader_with_lanes(1)
    reader.quantum = 1
    data = messages(3)
    frames = reader.feed(data[:-10])
    reader.quantum = 0
    frames += reader.feed(data[-10:])
    assert b"".join(raws(frames)) == data


def test_an_error_comes_after_the_quanta_before_it():
    reader = reader_with_lanes(1)
    reader.quantum = 1
    assert len(reader.feed(messages(2) + b"\x09" * 20)) == 3
    assert reader.error is None
    assert len(reader.resume()) == 3
    assert isinstance(reader.error, FrameError)
    assert reader.refused == b"\x09" * 20


@given(
    sizes=st.lists(st.integers(1, 200), max_size=20),
    quantum=st.integers(0, 5),
    wanted=st.sets(st.sampled_from([BasicPublish.index, BasicQos.index])),
)
def test_quanta_make_no_difference_to_what_is_read(sizes: list[int], quantum: int, wanted: set[int]):
    data = (messages(3) + QOS + encode_method(2, BasicQos()) + HEARTBEAT_FRAME) * 3
    found = []
    for number in (0, quantum):
        reader = reader_with_lanes(1, 2)
        reader.quantum = number
        reader.want(bytes(index in wanted for index in range(METHOD_COUNT)), content=False)
        frames, taken, rest = [], b"", data
        for size in [*sizes, len(data)]:
            frames += reader.feed(rest[:size])
            taken += bytes(reader.taken)
            rest = rest[size:]
            while reader.is_paused:
                assert reader.taken_from + len(reader.taken) == reader.offset
                frames += reader.resume()
                taken += bytes(reader.taken)
        assert taken == data
        found.append([(frame.offset, frame.raw, frame.ordinal) for frame in frames])
    assert found[0] == found[1]


@pytest.mark.parametrize("more", [(b"12345",), (b"12", b"345"), (b"", b"1234", b"")])
def test_a_lenient_reader_takes_what_follows_for_body(more: tuple[bytes, ...]) -> None:
    """As RabbitMQ 3.10 does; see tests/real/malformed.py."""
    reader = reader_with_lanes(1, 2)
    reader.set_lenient(True)
    assert len(reader.feed(PUBLISH + header(3) + b"".join(map(body, more)))) == 2 + len(more)
    reader.feed(encode_method(2, BasicAck()) + body(bytes(1000)))
    assert reader.content_states[1].expects == BODY
    reader.feed(PUBLISH)
    assert isinstance(reader.error, UnexpectedFrame)


def test_a_reader_that_is_lenient_no_more_goes_on_with_a_body_that_is_too_long() -> None:
    reader = reader_with_lanes(1)
    reader.set_lenient(True)
    reader.feed(PUBLISH + header(3) + body(b"12345"))
    reader.set_lenient(False)
    reader.feed(body(b"6"))
    assert reader.error is None
    reader.open_content_state(2)
    assert not reader.content_states[2].is_lenient
