"""What a filter lets by of a connection."""

from amqproxy.amqp091.frames import every_frame
from amqproxy.amqp091.grammar import CLIENT
from amqproxy.rules.filters import Filter
from amqproxy.rules.seen import Client
from amqproxy.rules.sieve import Sieve
from tests.amqp091.transcript import read


def sifted(expression: str, transcript: str) -> list[str]:
    """The lines whose frames are let by, each where its message has come far enough."""
    sieve = Sieve(Filter(expression), Client(session=1))
    said = read(transcript)
    texts = {}
    passed = []
    for line in said:
        (frame,) = every_frame(line.octets, 0)
        texts[id(frame)] = (frame, line.text[3:])
        passed += sieve.sift(line.sender, [frame], 0.0)
    return [texts[id(frame)][1] for frame in passed]


MESSAGES = """
    >> 1 queue.declare queue=q
    >> 1 basic.publish routing_key=a
    >> 1 header 3
    >> 2 basic.publish routing_key=b
    >> 1 body abc
    >> 2 header 0
    >> heartbeat
"""


def test_by_the_method():
    assert sifted("routing_key == 'a'", MESSAGES) == ["1 basic.publish routing_key=a", "1 header 3", "1 body abc"]
    assert sifted("method == 'queue.declare'", MESSAGES) == ["1 queue.declare queue=q"]
    assert sifted("method == 'heartbeat'", MESSAGES) == ["heartbeat"]


def test_by_the_header():
    assert sifted("size == 0", MESSAGES) == ["2 basic.publish routing_key=b", "2 header 0"]


def test_by_the_body():
    assert sifted("body == 'abc'", MESSAGES) == ["1 basic.publish routing_key=a", "1 header 3", "1 body abc"]


def test_by_who_the_client_is():
    login = r">> connection.start-ok response='" + "\0guest\0guest'"
    sieve = Sieve(Filter("user == 'guest'"), Client(session=1))
    (line,) = read(login)
    (frame,) = every_frame(line.octets, 0)
    assert sieve.sift(CLIENT, [frame], 0.0) == [frame]
