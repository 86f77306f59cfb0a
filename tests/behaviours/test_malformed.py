"""Input that breaks the protocol, or looks as though it did: the broker's answer, and how the socket ends after it."""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from operator import attrgetter

import pytest

from amqproxy.amqp091.methods import METHODS
from tests.behaviours.client import until
from tests.behaviours.scene import Scene
from tests.real import raw
from tests.real.malformed import LATER, MALFORMED, WORKERS, Answer, Case, ask, asked
from tests.real.raw import Peer

pytestmark = pytest.mark.real

UTF_8 = "501 0.0 FRAME_ERROR - Malformed UTF-8 in shortstr"
NOT_OPEN = "504 20.10 CHANNEL_ERROR - second 'channel.open' seen"
NO_QUEUE = raw.method(1, 50, 10, b"\0\0" + raw.shortstr("nil") + b"\1" + bytes(4))
"""A passive declare, for which channel 1 is closed with 404."""

READER_CRASHES = {
    "method: unknown class 99": "503",
    "method: unknown class 99 on channel 0": "503",
    "method: unknown method basic.99": "503",
    "arguments: table shorter than its entry": "501",
    "arguments: table with half an entry": "501",
    "arguments: table of an unknown type z": "502",
    "arguments: table with an array that overruns": "501",
    # RabbitMQ takes it for the start of a publish.
    "method: one only a server sends (basic.deliver)": "503",
    "method: one only a server sends (basic.deliver), then another": "503",
    # RabbitMQ waits for the rest of a body that is already too long.
    "content: body larger than announced": "501",
    "content: body larger than announced, then a method": "501",
    "content: body larger than announced, then more of it": "501",
}
"""Our reply code where RabbitMQ's reader crashes, which closes the socket without a word, or where it hangs."""


def answer_of(scene: Scene, data: bytes, after: str = "channel") -> Answer:
    return ask(scene.broker.port, Case("", "", data, after))


def words(answer: Answer) -> str:
    """An answer with all that it says: `501 50.10 FRAME_ERROR - …`, `carries on`, `closed`."""
    if not answer.code:
        return answer.kind
    return f"{answer.summary} {answer.class_id}.{answer.method_id} {answer.text}"


@pytest.fixture(scope="module")
def answers() -> Iterator[Callable[[int, Case], Answer]]:
    """A function that returns the answer of the broker at a port: handshakes, which wait, are all asked at once."""
    with ThreadPoolExecutor(WORKERS) as pool:
        handshakes = cache(lambda port: asked(port, pool, filter(attrgetter("is_handshake"), MALFORMED)))

        def answer(port: int, case: Case) -> Answer:
            return handshakes(port)[case.name].result() if case.is_handshake else ask(port, case)

        yield answer


@pytest.mark.parametrize("case", MALFORMED, ids=lambda case: case.name)
def test_answers(scene: Scene, is_rabbitmq: bool, answers: Callable[[int, Case], Answer], case: Case) -> None:
    answer = answers(scene.broker.port, case)
    expected = case.rabbitmq if is_rabbitmq else READER_CRASHES.get(case.name, case.rabbitmq)
    expected = LATER[scene.profile.name].get(case.name, expected)
    assert answer.summary == expected, answer


# ------------------------------------------------------------------------------------------------- values of tables

INT16 = b"U\0\1"
NOT_FINITE = {
    "float NaN": b"f\x7f\xc0\0\0",
    "float Inf": b"f\x7f\x80\0\0",
    "float -Inf": b"f\xff\x80\0\0",
    "double NaN": b"d\x7f\xf8" + bytes(6),
    "double Inf": b"d\x7f\xf0" + bytes(6),
}
UNKNOWN_VALUES = {"U": INT16, "z": b"z", **NOT_FINITE}
KNOWN_VALUES = {
    "largest float": b"f\x7f\x7f\xff\xff",
    "largest double": b"d\x7f\xef" + b"\xff" * 6,
    "L": b"L" + bytes(8),
}


def entry(value: bytes) -> bytes:
    return b"\1k" + value


def in_array(value: bytes) -> bytes:
    return entry(b"A" + raw.longstr(value))


def in_table(value: bytes) -> bytes:
    return entry(b"F" + raw.longstr(entry(value)))


def declaring(entries: bytes) -> bytes:
    return raw.method(1, 50, 10, b"\0\0" + raw.shortstr("") + bytes([0b100]) + raw.longstr(entries))


def publishing(entries: bytes) -> bytes:
    return raw.publish(1, "nowhere") + raw.header(1, 0, flags=0x2000, properties=raw.longstr(entries))


@pytest.mark.parametrize("value", UNKNOWN_VALUES.values(), ids=UNKNOWN_VALUES)
@pytest.mark.parametrize("place", [entry, in_array, in_table])
def test_header_values_that_erlang_does_not_have(
    scene: Scene, is_rabbitmq: bool, place: Callable[[bytes], bytes], value: bytes
) -> None:
    """A crash of RabbitMQ's channel may be seen only after the next methods were answered: then it is asked again."""

    def crashes() -> bool:
        return words(answer_of(scene, publishing(place(value)))) == "541 0.0 INTERNAL_ERROR"

    assert crashes() or (is_rabbitmq and until(crashes, "the channel to crash"))


@pytest.mark.parametrize("value", UNKNOWN_VALUES.values(), ids=UNKNOWN_VALUES)
def test_argument_values_that_erlang_does_not_have(scene: Scene, is_rabbitmq: bool, value: bytes) -> None:
    """RabbitMQ's reader crashes; ours says why it closes."""
    answer = answer_of(scene, declaring(entry(value)))
    assert answer.summary == ("closed" if is_rabbitmq else "502")


@pytest.mark.parametrize("value", KNOWN_VALUES.values(), ids=KNOWN_VALUES)
@pytest.mark.parametrize("use", [declaring, publishing])
def test_values_that_are_taken(scene: Scene, use: Callable[[bytes], bytes], value: bytes) -> None:
    assert answer_of(scene, use(entry(value))).summary == "carries on"


def nested(letter: bytes, depth: int) -> bytes:
    """The entries of a table with so many tables or arrays within one another."""
    entries = b""
    for _ in range(depth):
        entries = (b"\1k" if letter == b"F" else b"") + letter + raw.longstr(entries)
    return entries if letter == b"F" else entry(entries)


@pytest.mark.parametrize("depth", [128, 129, 1000, 18_000])
@pytest.mark.parametrize("letter", [b"F", b"A"], ids=["tables", "arrays"])
@pytest.mark.parametrize("use", [declaring, publishing])
def test_tables_nest_as_deep_as_a_frame_lets_them(
    scene: Scene, use: Callable[[bytes], bytes], letter: bytes, depth: int
) -> None:
    assert answer_of(scene, use(nested(letter, depth))).summary == "carries on"


@pytest.mark.parametrize("letter", [b"F", b"A"], ids=["tables", "arrays"])
def test_deep_headers_are_delivered_as_they_came(scene: Scene, letter: bytes) -> None:
    properties = raw.longstr(nested(letter, 2000))
    with Peer.opened(scene.broker.port, 1) as peer:
        queue = peer.declare()
        peer.send(raw.publish(1, queue), raw.header(1, 0, flags=0x2000, properties=properties), raw.consume(1, queue))
        for frame in peer.frames():
            if frame.kind == raw.HEADER:
                assert frame.payload[14:] == properties
                break


# --------------------------------------------------------------------------------------------------- short strings


def with_octets(name: str, field: str, octets: bytes = b"\xff") -> bytes:
    """The arguments of a method, in one field of which there are these octets."""
    method = next(cls for cls in METHODS.values() if cls.name == name)
    encoded = bytearray()
    for each, code in zip(method.__struct_fields__, method.layout.decode(), strict=True):
        if code in "su":
            encoded += raw.shortstr(octets if each == field else "")
        elif code in "SF":
            encoded += raw.longstr(b"")
        elif code != "b":
            encoded += bytes({"o": 1, "h": 2, "l": 4, "q": 8}[code])
    bits = method.layout.count(b"b")
    encoded += bytes((bits + 7) // 8)  # the bits of the methods below are next to one another, and tables behind them
    return bytes(encoded)


@pytest.mark.parametrize(
    ("name", "ids", "field"),
    [
        ("channel.open", (20, 10), "reserved_1"),
        ("channel.close", (20, 40), "reply_text"),
        ("access.request", (30, 10), "realm"),
        ("basic.cancel", (60, 30), "consumer_tag"),
        ("basic.cancel-ok", (60, 31), "consumer_tag"),
        ("basic.get", (60, 70), "queue"),
        ("queue.unbind", (50, 50), "routing_key"),
        ("exchange.delete", (40, 20), "exchange"),
    ],
)
def test_short_strings_are_utf_8(scene: Scene, name: str, ids: tuple[int, int], field: str) -> None:
    assert words(answer_of(scene, raw.method(1, *ids, with_octets(name, field)))) == UTF_8


def bind(key: bytes) -> bytes:
    return raw.method(1, 50, 20, b"\0\0\0" + raw.shortstr("amq.direct") + raw.shortstr(key) + bytes(5))


def consume(tag: bytes) -> bytes:
    return raw.method(1, 60, 20, b"\0\0\0" + raw.shortstr(tag) + bytes(5))


def exchange(type_: bytes) -> bytes:
    return raw.method(1, 40, 10, b"\0\0" + raw.shortstr("x") + raw.shortstr(type_) + bytes(5))


@pytest.mark.parametrize("data", [bind(b"\xff"), consume(b"\xff"), exchange(b"\xff")], ids=["bind", "consume", "type"])
def test_short_strings_before_bits_are_utf_8(scene: Scene, data: bytes) -> None:
    assert words(answer_of(scene, data)) == UTF_8


def test_methods_of_the_connection_are_utf_8(scene: Scene) -> None:
    close = raw.method(0, 10, 50, b"\0\xc8" + raw.shortstr(b"\xff") + bytes(4))
    assert words(answer_of(scene, close)) == "501 10.50 FRAME_ERROR - Malformed UTF-8 in shortstr"
    vhost = raw.method(0, 10, 40, raw.shortstr(b"\xff") + bytes(2))
    answer = answer_of(scene, raw.tune_ok() + vhost, "tune")
    assert words(answer) == "501 10.40 FRAME_ERROR - Malformed UTF-8 in shortstr"


# --------------------------------------------------------------------------------------------- methods out of place


def refusals(peer: Peer) -> list[str]:
    """The closes that a peer is sent, until its connection is closed or nothing comes after its channel's answer."""
    found = []
    with contextlib.suppress(TimeoutError):
        for each in peer.frames():
            if each.close:
                found.append(words(Answer.closing(each.close)))
            if each.method == raw.CONNECTION_CLOSE:
                break
            if each.method == (60, 11):  # RabbitMQ's first channel may still be at work
                peer.stream.settimeout(0.3)
    return found


QOS = raw.method(2, 60, 10, bytes(7))
"""basic.qos on the second channel, which is answered where the connection goes on."""

CLOSE = raw.method(1, 20, 40, b"\0\xc8" + raw.shortstr("") + bytes(4))
CLOSE_OK = raw.method(1, 20, 41)


@pytest.mark.parametrize(
    ("then", "expected"),
    [
        (raw.channel_open(1), [NOT_OPEN]),
        (raw.method(1, 60, 10, bytes(7)) + raw.channel_open(1), [NOT_OPEN]),
        (CLOSE + raw.channel_open(1), [NOT_OPEN]),
        (CLOSE_OK + raw.channel_open(1), []),
        (CLOSE, []),
        (NO_QUEUE, []),
        (raw.method(1, 60, 11), []),
        (raw.method(1, 50, 10, b"\0\0" + raw.shortstr(b"\xff") + bytes(5)), [UTF_8]),
        (raw.method(1, 50, 10, b"\0\0\5ab"), ["501 50.10 FRAME_ERROR - cannot decode <<0,0,5,97,98>>"]),
    ],
    ids=[
        "channel.open",
        "a method, channel.open",
        "channel.close, channel.open",
        "channel.close-ok, channel.open",
        "channel.close",
        "the same",
        "a server's method",
        "not UTF-8",
        "truncated",
    ],
)
def test_on_a_channel_that_the_broker_has_closed(scene: Scene, then: bytes, expected: list[str]) -> None:
    with Peer.opened(scene.broker.port, 1, 2) as peer:
        peer.send(NO_QUEUE)
        peer.expect(20, 40)
        peer.send(then, QOS)
        assert refusals(peer) == expected


@pytest.mark.parametrize(
    ("data", "after", "expected"),
    [
        (raw.tune_ok() * 2, "tune", "504 10.31 CHANNEL_ERROR - unexpected method in connection state opening"),
        (raw.tune_ok(), "channel", "504 10.31 CHANNEL_ERROR - unexpected method in connection state running"),
        (
            raw.frame(raw.HEADER, 9, b"ab"),
            "channel",
            '501 0.0 FRAME_ERROR - type 2, all octets = <<"ab">>: unknown_frame',
        ),
    ],
    ids=["tune-ok twice", "tune-ok late", "short header on a closed channel"],
)
def test_out_of_place(scene: Scene, data: bytes, after: str, expected: str) -> None:
    assert words(answer_of(scene, data, after)) == expected


def test_credit_for_no_consumer(scene: Scene) -> None:
    with Peer.opened(scene.broker.port, 1, 2) as peer:
        peer.send(raw.method(1, 60, 200, raw.shortstr("x") + bytes(5)))
        if not scene.profile.knows_basic_credit:
            refused = peer.expect(10, 50).close
            assert refused is not None
            assert (refused.code, refused.text) == (503, "COMMAND_INVALID - unimplemented method")
            return
        close = peer.expect(20, 40).close
        assert close is not None
        assert (close.code, close.text) == (406, "PRECONDITION_FAILED - unknown consumer tag 'x'")
        peer.send(QOS)
        assert refusals(peer) == []


# ------------------------------------------------------------------------------------------- after a connection error

ERRORS = {
    "501 unknown frame type": raw.frame(4, 1, b"1234"),
    "501 empty method": raw.frame(raw.METHOD, 1),
    "501 not UTF-8": raw.method(1, 50, 10, b"\0\0" + raw.shortstr(b"\xff") + bytes(5)),
    "501 truncated": raw.method(1, 50, 10, b"\0\0\5ab"),
    "501 short header": raw.publish(1, "x") + raw.frame(raw.HEADER, 1, bytes(11)),
    "501 heartbeat with a payload": raw.frame(raw.HEARTBEAT, 0, b"boo"),
    "503 server's method": raw.method(1, 60, 11),
    "503 unimplemented method": raw.method(1, 20, 11),
    "504 not open": raw.method(7, 60, 10, bytes(7)),
    "505 body": raw.body(1, b"x"),
    "505 within content": raw.publish(1, "x") + raw.method(1, 60, 10, bytes(7)),
    "505 heartbeat on channel 1": raw.frame(raw.HEARTBEAT, 1),
    "505 header of another class": raw.publish(1, "x") + raw.header(1, 0, class_id=50),
    "540 prefetch size": raw.method(1, 60, 10, b"\0\0\0\1" + bytes(3)),
    "541 header": raw.publish(1, "x") + raw.header(1, 0, flags=0x8000),
}
LOST = {
    "501 end marker": raw.frame(raw.METHOD, 1, struct.pack(">HH", 60, 10) + bytes(7), end=b"\0"),
    "501 too large": raw.frame(raw.BODY, 0, bytes(raw.FRAME_MAX + 1)),
    "501 4 GiB": struct.pack(">BHI", raw.METHOD, 1, 0xFFFF_FFFF),
}
"""Errors behind which the broker cannot tell where the next frame begins."""

AT_ONCE = 1.5
"""Seconds: much less than the three until a client is cut that is not understood, and than the 30 for its close-ok."""

TRIES = 3
"""Tries, of which one has to end at once: a machine of tests stands still for seconds at times."""


def refused(scene: Scene, data: bytes) -> Peer:
    """A peer that was sent connection.close, for these bytes."""
    peer = Peer.opened(scene.broker.port, 1, 2)
    scene.stack.callback(peer.stream.close)
    peer.send(data)
    assert any(frame.method == raw.CONNECTION_CLOSE for frame in peer.frames())
    return peer


def end_of(peer: Peer) -> tuple[list[tuple[int, int] | None], float]:
    """The methods that a peer is sent until its socket ends, and in how many seconds it does."""
    start = time.monotonic()
    methods = [frame.method for frame in peer.frames()]
    return methods, time.monotonic() - start


@pytest.mark.parametrize("data", ERRORS.values(), ids=ERRORS)
def test_close_ok_ends_the_connection_at_once(scene: Scene, data: bytes) -> None:
    def seconds() -> float:
        peer = refused(scene, data)
        peer.send(raw.channel_open(5), raw.frame(raw.HEARTBEAT, 0), raw.connection_close_ok())
        methods, seconds = end_of(peer)
        assert methods == []
        return seconds

    assert any(seconds() < AT_ONCE for _ in range(TRIES))


@pytest.mark.parametrize("data", ERRORS.values(), ids=ERRORS)
def test_close_is_answered_and_close_ok_waited_for(scene: Scene, data: bytes) -> None:
    def seconds() -> float:
        peer = refused(scene, data)
        peer.send(raw.connection_close())
        peer.expect(10, 51)
        peer.stream.settimeout(0.3)
        with pytest.raises(TimeoutError):
            peer.read()
        peer.stream.settimeout(raw.DEADLINE)
        peer.send(raw.connection_close_ok())
        methods, seconds = end_of(peer)
        assert methods == []
        return seconds

    assert any(seconds() < AT_ONCE for _ in range(TRIES))


def test_close_in_the_write_of_the_error_is_answered_too(scene: Scene) -> None:
    for name, data in ERRORS.items():
        if name[:3] in ("501", "505"):  # others are found by RabbitMQ's channels, after its reader has found the close
            refused(scene, data + raw.connection_close()).expect(10, 51)


def test_a_client_that_is_not_understood_is_cut_after_three_seconds(scene: Scene) -> None:
    """Whether it answers or not, as its answer is not found; and so is one that sends garbage after its close."""
    start = time.monotonic()
    peers = [refused(scene, data) for data in (*LOST.values(), ERRORS["504 not open"], ERRORS["505 body"])]
    for peer in peers[: len(LOST)]:
        peer.send(raw.connection_close_ok())
    for peer in peers[len(LOST) :]:
        peer.send(b"\x09" * 20)
    for peer in peers:
        assert end_of(peer)[0] == []
        assert 2 < time.monotonic() - start < 8
