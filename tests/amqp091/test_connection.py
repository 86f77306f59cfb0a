"""A connection, from its first byte to its last."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.connection import CLIENT, SERVER, ConnectionState, Peer
from amqproxy.amqp091.errors import CommandInvalid, NotAllowed, ProtocolError, UnexpectedFrame
from amqproxy.amqp091.frame import BODY, HEADER, Frame, encode_frame, encode_method
from amqproxy.amqp091.frame_reader import MAX_HEADER
from amqproxy.amqp091.methods import (
    BY_INDEX,
    BasicPublish,
    BasicQos,
    ChannelOpen,
    ConnectionOpen,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.amqp091.tally import Tally
from tests.amqp091 import strategies
from tests.amqp091.tracking import TrackingConnection
from tests.amqp091.transcript import by_byte, play, play_in_bursts

START = """
>> protocol-header
<< connection.start
>> connection.start-ok client_properties="{'product': 'test'}" response=secret
<< connection.tune channel_max=3 frame_max=8192 heartbeat=60
"""
OPEN = (
    START
    + """
>> connection.tune-ok channel_max=3 frame_max=8192 heartbeat=10
>> connection.open virtual_host=/here
<< connection.open-ok
"""
)

TRANSCRIPTS = {
    "a handshake": OPEN,
    "a handshake with challenges": """
        >> protocol-header
        << connection.start
        >> connection.start-ok mechanism=SCRAM-SHA-256
        << connection.secure challenge=one
        >> connection.secure-ok response=1
        << connection.secure challenge=two
        >> connection.secure-ok response=2
        << connection.tune
        """,
    "all that a client can send without waiting": START
    + """
        >> connection.tune-ok channel_max=3 frame_max=8192 heartbeat=10
        >> connection.open
        >> 1 channel.open
        >> 1 queue.declare queue=q
        >> 1 basic.publish routing_key=q
        >> 1 header 1
        >> 1 body x
        << connection.open-ok
        << 1 channel.open-ok
        << 1 queue.declare-ok queue=q
        """,
    "a method before the protocol header": """
        >> connection.open
        !! 503 connection 10.40 +0
        """,
    "start-ok twice": """
        >> protocol-header
        << connection.start
        >> connection.start-ok
        >> connection.start-ok
        !! 503 connection 10.11 +0
        """,
    "open before tune-ok": START
    + """
        >> connection.open
        !! 503 connection 10.40 +0
        """,
    "a channel before open": START
    + """
        >> 1 channel.open
        !! 505 connection 20.10 +0
        """,
    "an unexpected challenge": START
    + """
        << connection.secure
        !! 503 connection 10.20 +0
        """,
    "start from the client": """
        >> protocol-header
        >> connection.start
        !! 503 connection 10.10 +0
        """,
    "a refused login": """
        >> protocol-header
        << connection.start
        >> connection.start-ok
        << connection.close reply_code=403
        >> connection.close-ok
        """,
    "a refused virtual host": START
    + """
        >> connection.tune-ok channel_max=3 frame_max=8192
        >> connection.open virtual_host=/nowhere
        << connection.close reply_code=530
        >> connection.close-ok
        """,
    "a client that closes early": """
        >> protocol-header
        << connection.start
        >> connection.close
        << connection.close-ok
        """,
    "open twice": OPEN
    + """
        >> connection.open
        !! 504 connection 10.40 +0
        """,
    "tune-ok twice": OPEN
    + """
        >> connection.tune-ok
        !! 504 connection 10.31 +0
        """,
    "close-ok to no close": OPEN
    + """
        >> connection.close-ok
        !! 504 connection 10.51 +0
        """,
    "a channel's method": OPEN
    + """
        >> basic.qos
        !! 504 connection 60.10 +0
        """,
    "content": OPEN
    + """
        >> header 5
        !! 505 connection 0.0 +0
        """,
    "a channel that is not open": OPEN
    + """
        >> 1 channel.open
        << 1 channel.open-ok
        >> 2 basic.qos
        !! 504 connection 60.10 +0
        """,
    "content on a channel that is not open": OPEN
    + """
        >> 2 body x
        !! 505 connection 0.0 +0
        """,
    "a header on a channel that is not open": OPEN
    + """
        >> 2 header 5
        !! 505 connection 0.0 +0
        """,
    "a channel that the server opens": OPEN
    + """
        << 1 channel.open
        !! 504 connection 20.10 +0
        """,
    "a method of the connection on a channel that is not open": OPEN
    + """
        >> 1 connection.close
        !! 504 connection 10.50 +0
        """,
    "channel numbers are free, their count is not": OPEN
    + """
        >> 1 channel.open
        >> 65535 channel.open
        >> 77 channel.open
        >> 1 channel.close
        << (1 channel.open-ok)
        << 1 channel.close-ok
        >> 4 channel.open
        """,
    "blocked": OPEN
    + """
        << connection.blocked reason=memory
        << connection.unblocked
        << connection.blocked reason=disk
        """,
    "blocked from the client": OPEN
    + """
        >> connection.blocked
        !! 504 connection 10.60 +0
        """,
    "a new secret": OPEN
    + """
        >> connection.update-secret new_secret=x
        << connection.update-secret-ok
        """,
    "heartbeats at any time": """
        >> protocol-header
        >> heartbeat
        << connection.start
        << heartbeat
        """,
    "the client closes": OPEN
    + """
        >> 1 channel.open
        >> connection.close
        << (1 channel.open-ok)
        << (connection.blocked)
        >> (1 basic.qos)
        << connection.close-ok
        << (connection.close-ok)
        """,
    "the server closes, in the middle of a content": OPEN
    + """
        >> 1 channel.open
        << 1 channel.open-ok
        >> 1 basic.publish
        >> 1 header 5
        << connection.close reply_code=320
        >> (1 body hel)
        >> (1 header 5)
        >> (2 basic.ack delivery_tag=1)
        >> connection.close-ok
        """,
    "the client closes, in the middle of a content that it sends": OPEN
    + """
        >> 1 channel.open
        >> 1 basic.publish
        >> connection.close
        << connection.close-ok
        """,
    "both close at once": OPEN
    + """
        >> connection.close
        << connection.close
        << connection.close-ok
        >> connection.close-ok
        """,
    "both close at once, and the client answers first": OPEN
    + """
        << connection.close
        >> connection.close
        >> connection.close-ok
        << connection.close-ok
        """,
}


@pytest.mark.parametrize("transcript", TRANSCRIPTS.values(), ids=TRANSCRIPTS)
class TestTranscripts:
    def test_line_by_line(self, transcript: str) -> None:
        play(transcript)

    def test_in_bursts(self, transcript: str) -> None:
        play_in_bursts(transcript)

    def test_byte_by_byte(self, transcript: str) -> None:
        play_in_bursts(transcript, by_byte)


def test_what_was_agreed_is_known() -> None:
    connection = play(OPEN)
    assert connection.state is ConnectionState.OPEN
    assert (connection.channel_max, connection.frame_max, connection.heartbeat) == (3, 8192, 10)
    assert connection.virtual_host == "/here"
    assert connection.client is not None
    assert connection.client.client_properties == {"product": "test"}
    assert {reader.frame_max for reader in connection.readers.values()} == {8192}


@pytest.mark.parametrize(
    ("ending", "state"), [("", ConnectionState.OPEN), (">> connection.close", ConnectionState.CLOSED_BY_CLIENT)]
)
def test_the_state_has_a_name(ending: str, state: ConnectionState) -> None:
    assert play(OPEN + ending).state is state


def test_both_closed() -> None:
    connection = play(OPEN + ">> connection.close\n<< connection.close\n>> connection.close-ok\n<< connection.close-ok")
    assert connection.state is ConnectionState.CLOSED
    assert connection.may_send(CLIENT) == connection.may_send(SERVER) == connection.may_send(CLIENT, 1) == frozenset()


def test_blocked_is_known() -> None:
    connection = play(OPEN + "<< connection.blocked")
    assert connection.is_blocked
    assert not play("<< connection.unblocked", connection).is_blocked


def test_a_new_connection_takes_only_the_protocol_header() -> None:
    connection = TrackingConnection()
    assert connection.may_send(CLIENT) == {"protocol-header"}
    assert connection.may_send(SERVER) == connection.may_send(CLIENT, 1) == frozenset()


# --- the protocol header


def test_a_stranger_is_named() -> None:
    with pytest.raises(CommandInvalid, match=r"the client speaks 0-10"):
        TrackingConnection().receive_header(CLIENT, b"AMQP\x01\x01\x00\x0a")


def test_a_protocol_header_comes_once_and_first() -> None:
    with pytest.raises(UnexpectedFrame):
        play(">> protocol-header\n>> protocol-header")
    with pytest.raises(UnexpectedFrame):
        TrackingConnection().receive_header(SERVER, b"AMQP\x00\x00\x09\x01")


def test_a_server_answers_with_its_versions_and_is_done() -> None:
    connection = play(">> protocol-header")
    connection.receive_header(SERVER, b"AMQP\x00\x00\x08\x00")
    assert connection.state is ConnectionState.CLOSED


# --- limits


@pytest.mark.parametrize(
    ("offered", "chosen", "agreed"),
    [
        ((0, 0, 0), (0, 0, 0), (0, 0, 0)),
        ((0, 0, 0), (5, 4096, 9), (5, 4096, 9)),
        ((2047, 131072, 60), (2047, 131072, 60), (2047, 131072, 60)),
        ((2047, 131072, 60), (1, 4096, 0), (1, 4096, 0)),
        ((2047, 131072, 60), (1, 4096, 900), (1, 4096, 900)),
        ((2047, 131072, 60), (0, 4096, 0), "channel_max 0, where the server offered 2047"),
        ((2047, 131072, 60), (2048, 4096, 0), "channel_max 2048"),
        ((2047, 131072, 60), (1, 131073, 0), "frame_max 131073, where the server offered 131072"),
        ((2047, 131072, 60), (1, 0, 0), "frame_max 0"),
        ((2047, 0, 60), (1, 4095, 0), "frame_max 4095 is below the minimum"),
    ],
)
def test_limits(offered: tuple[int, ...], chosen: tuple[int, ...], agreed: tuple[int, ...] | str) -> None:
    connection = play(">> protocol-header\n<< connection.start\n>> connection.start-ok")
    connection.send(SERVER, 0, ConnectionTune(*offered))
    if isinstance(agreed, str):
        with pytest.raises(NotAllowed, match=agreed):
            connection.send(CLIENT, 0, ConnectionTuneOk(*chosen))
    else:
        connection.send(CLIENT, 0, ConnectionTuneOk(*chosen))
        assert (connection.channel_max, connection.frame_max, connection.heartbeat) == agreed


def test_one_channel_too_many() -> None:
    connection = play(OPEN + ">> 1 channel.open\n>> 2 channel.open\n>> 3 channel.open")
    with pytest.raises(NotAllowed, match="channel_max") as caught:
        connection.send(CLIENT, 4, ChannelOpen())
    assert (caught.value.channel, caught.value.class_id, caught.value.method_id) == (4, 20, 10)


def large_content(size: int) -> bytes:
    publish = encode_method(1, BasicPublish())
    return publish + encode_frame(HEADER, 1, ContentHeader(size).encode()) + encode_frame(BODY, 1, bytes(size))


@pytest.mark.parametrize(("size", "is_taken"), [(8192, True), (8193, False)])
def test_a_limit_holds_from_the_next_byte_on(size: int, is_taken: bool) -> None:
    connection = play(START)
    methods: list[tuple[int, Method]] = [
        (0, ConnectionTuneOk(3, 8192, 0)),
        (0, ConnectionOpen()),
        (1, ChannelOpen()),
    ]
    burst = b"".join(encode_method(*pair) for pair in methods) + large_content(size)
    if is_taken:
        assert len(connection.feed(CLIENT, burst)) == 6
    else:
        with pytest.raises(ProtocolError, match="8193 bytes, where 8192 is the most"):
            connection.feed(CLIENT, burst)
        assert connection.channels[1].content_states[CLIENT].expects == BODY, "what came before has been taken"


def test_only_a_server_sends_content_headers_above_frame_max() -> None:
    connection = play(START)
    connection.feed(CLIENT, encode_method(0, ConnectionTuneOk(3, 4096, 0)))
    assert {peer: reader.header_max for peer, reader in connection.readers.items()} == {CLIENT: 0, SERVER: MAX_HEADER}
    connection.feed(SERVER, b"\x02\0\1" + MAX_HEADER.to_bytes(4, "big"))
    with pytest.raises(ProtocolError, match="4097 bytes, where 4096 is the most"):
        connection.feed(CLIENT, b"\x02\0\1" + (4097).to_bytes(4, "big"))


def test_frames_before_tune_ok_have_another_limit() -> None:
    connection = TrackingConnection(initial_frame_max=100)
    connection.receive_header(CLIENT, b"AMQP\x00\x00\x09\x01")
    with pytest.raises(ProtocolError, match="101 bytes, where 100 is the most"):
        connection.feed(SERVER, b"\x01\0\0\0\0\0\x65")


# --- frames one by one


def test_what_is_sent_is_noted_and_encoded() -> None:
    connection = play(OPEN)
    assert connection.send(CLIENT, 1, ChannelOpen()) == encode_method(1, ChannelOpen())
    assert 1 in connection.channels
    with pytest.raises(ProtocolError) as caught:
        connection.send(SERVER, 1, BasicQos())
    assert (caught.value.code, caught.value.channel) == (503, 1)


def test_two_connections_can_be_shown_the_same_frames() -> None:
    """As a proxy does, which reads once for both of its legs."""
    near, far = play(OPEN), play(OPEN)
    burst = encode_method(1, ChannelOpen()) + large_content(5)
    frame_bytes = burst + large_content(3)[:50]
    for piece in (frame_bytes, large_content(3)[50:], encode_method(1, BasicQos())):
        for frame in near.feed(CLIENT, piece):
            far.receive(CLIENT, frame)
    assert far.channels[1].may_send(SERVER) == near.channels[1].may_send(SERVER)
    assert "basic.qos-ok" in far.may_send(SERVER, 1)


def test_a_malformed_method_is_malformed_even_where_it_may_not_come() -> None:
    connection = play(OPEN)
    with pytest.raises(ProtocolError) as caught:
        connection.receive(CLIENT, Frame(encode_method(9, BasicQos())[:7] + b"\0\x3c\0\x0a\xce"))
    assert (caught.value.code, caught.value.class_id, caught.value.method_id) == (501, 60, 10)


def test_tallies_can_be_shared() -> None:
    tallies = {peer: Tally() for peer in Peer}
    for _ in range(2):
        play(OPEN, TrackingConnection(tallies=tallies))
    assert (sum(tallies[CLIENT].frames), sum(tallies[SERVER].frames)) == (6, 6)


def test_the_middle_of_a_content() -> None:
    connection = play(OPEN + ">> 1 channel.open\n>> 1 basic.publish")
    assert connection.is_mid_content
    assert not play(">> 1 header 0", connection).is_mid_content


# --- heartbeats


def test_heartbeats() -> None:
    connection = play(OPEN)  # every ten seconds
    connection.note_received(CLIENT, 100.0)
    assert [connection.is_heartbeat_due(CLIENT, now) for now in (100.0, 104.9, 105.0)] == [False, False, True]
    assert [connection.is_silent(CLIENT, now) for now in (105.0, 120.0, 120.1)] == [False, False, True]
    connection.note_received(CLIENT, 120.0)
    assert not connection.is_silent(CLIENT, 139.0)


def test_silence_begins_when_it_is_first_asked_about() -> None:
    connection = play(OPEN)
    assert [connection.is_silent(SERVER, now) for now in (1000.0, 1020.0, 1021.0)] == [False, False, True]


def test_no_heartbeats() -> None:
    connection = play(START + ">> connection.tune-ok channel_max=3 frame_max=8192 heartbeat=0")
    connection.note_received(CLIENT, 0.0)
    assert not connection.is_silent(CLIENT, 1e9)
    assert not connection.is_heartbeat_due(CLIENT, 1e9)


# --- properties

INDEXES = {cls.name: cls for cls in BY_INDEX}


@given(st.data())
def test_whatever_may_be_sent_is_taken_and_whatever_may_not_is_refused(data: st.DataObject) -> None:
    """A walk: at each step a method is drawn; unless it is discarded, `may_send` has to be right about it."""
    connection = TrackingConnection()
    connection.receive_header(CLIENT, b"AMQP\x00\x00\x09\x01")
    for _ in range(data.draw(st.integers(0, 40))):
        sender, channel = data.draw(st.sampled_from(list(Peer))), data.draw(st.sampled_from((0, 0, 1, 1, 2)))
        may = connection.may_send(sender, channel)
        name = data.draw(st.sampled_from(sorted(may))) if may and data.draw(st.integers(0, 9)) else "basic.qos"
        if name == "body":
            frame_bytes = encode_frame(BODY, channel, b"x")
        elif name == "header":
            frame_bytes = encode_frame(HEADER, channel, ContentHeader(data.draw(st.integers(0, 2))).encode())
        elif name == "protocol-header":
            return
        else:
            frame_bytes = encode_method(channel, INDEXES[name]())
        try:
            was_taken = connection.receive(sender, Frame(frame_bytes))
        except ProtocolError as error:
            if error.code in (503, 504, 505):
                is_about_tags = "delivery tag" in error.text
                assert is_about_tags or name not in may
            return
        assert was_taken is (name in may)


@given(strategies.mutated(strategies.streams()), strategies.splits, st.sampled_from(list(Peer)), st.booleans())
def test_any_bytes_end_alike_however_they_are_cut(
    frame_bytes: bytes, sizes: list[int], sender: Peer, opens_in_burst: bool
) -> None:
    def outcome(sizes: list[int]) -> tuple[object, ...]:
        connection = play(OPEN)
        opening = encode_method(1, ChannelOpen()) + encode_method(2, ChannelOpen())
        fed = frame_bytes
        if opens_in_burst and sender is CLIENT:
            fed = opening + frame_bytes
        else:
            connection.feed(CLIENT, opening)
        error = None
        for piece in strategies.pieces(fed, sizes):
            error = strategies.attempt(connection.feed, sender, piece)
            if isinstance(error, ProtocolError):
                break
        fault = ()
        if isinstance(error, ProtocolError):
            fault = (error.code, error.scope, error.channel, error.offset, error.text, error.class_id, error.method_id)
        return fault, connection.state, {n: c.state for n, c in connection.channels.items()}

    assert outcome(sizes) == outcome([len(frame_bytes) + 100])
