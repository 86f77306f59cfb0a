"""Where requests are among what their senders sent."""

from __future__ import annotations

from amqproxy.amqp010.commands import ExchangeDeclare, ExecutionSync, MessageAccept, MessageTransfer
from amqproxy.amqp010.controls import ConnectionHeartbeat, SessionFlush, SessionRequestTimeout
from amqproxy.amqp010.frame import COMMAND, CONTROL, FIRST_FRAME, encode_frame
from amqproxy.amqp010.frame import Frame as Amqp010Frame
from amqproxy.amqp010.frame import encode_method as encode_amqp010
from amqproxy.amqp010.methods import Method as Amqp010Method
from amqproxy.amqp091.frame import BODY, HEARTBEAT_FRAME, Frame, encode_method
from amqproxy.amqp091.frame import encode_frame as encode_amqp091
from amqproxy.amqp091.methods import BasicPublish, ExchangeDelete, Method, QueueDeclare
from amqproxy.comparison import request_places
from amqproxy.comparison.request_places import RequestPlaces
from amqproxy.peer import CLIENT, SERVER


def of_0_9_1(method: Method) -> Frame:
    return Frame(encode_method(1, method))


def of_0_10(method: Amqp010Method) -> Amqp010Frame:
    return Amqp010Frame(encode_amqp010(1, method))


def test_requests_of_0_9_1_have_their_place_once() -> None:
    places = RequestPlaces()
    asked = [places.take(CLIENT, of_0_9_1(method)) for method in (ExchangeDelete(), BasicPublish(), QueueDeclare())]
    places.take(CLIENT, Frame(HEARTBEAT_FRAME))
    assert places.take(CLIENT, Frame(encode_amqp091(BODY, 1, b"x"))) is None
    assert places.take(CLIENT, Frame(encode_amqp091(1, 1, b"\0\x0a\0\x0a"))) is None, "it is malformed"
    assert places.counts == {CLIENT: 5, SERVER: 0}
    deleted, published, declared = asked
    assert deleted is not None
    assert published is not None
    assert declared is not None
    assert [places.place_of(each, CLIENT) for each in (declared, deleted, published)] == [3, 1, 5]
    assert places.place_of(declared, CLIENT) == 5, "it was asked for before"


def test_requests_of_0_10() -> None:
    places = RequestPlaces()
    sent = (
        ConnectionHeartbeat(),
        SessionRequestTimeout(timeout=1),
        SessionFlush(),
        MessageTransfer(),
        MessageAccept(),
        ExchangeDeclare(exchange="x"),
        ExecutionSync(),
    )
    taken = {}
    for method in sent:
        found = places.take(SERVER, of_0_10(method))
        taken[method.name] = found or method
    assert places.counts == {CLIENT: 0, SERVER: 6}
    assert {name: places.place_of(method, SERVER) for name, method in taken.items()} == {
        "connection.heartbeat": 6,
        "session.request-timeout": 1,
        "session.flush": 6,
        "message.transfer": 6,
        "message.accept": 6,
        "exchange.declare": 5,
        "execution.sync": 6,
    }


def test_what_is_in_several_frames_or_malformed_is_counted() -> None:
    places = RequestPlaces()
    piece = Amqp010Frame(encode_frame(FIRST_FRAME, COMMAND, 1, ExecutionSync().encode()))
    malformed = Amqp010Frame(encode_frame(15, CONTROL, 1, b"\2\1\xff"))
    assert [places.take(CLIENT, each) for each in (piece, malformed)] == [None, None]
    assert places.counts[CLIENT] == 2


def test_no_more_requests_are_remembered_than_the_limit() -> None:
    places = RequestPlaces()
    most = request_places.MAX_REQUESTS
    frames = [of_0_10(ExecutionSync(sync=True)) for _ in range(3)]
    places._requests.update({-number: (0, frames[0].method) for number in range(1, most)})
    found = [places.take(CLIENT, frame) for frame in frames[1:]]
    assert len(places._requests) == most
    assert [places.place_of(each, CLIENT) for each in found if each is not None] == [1, 2]
