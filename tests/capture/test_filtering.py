"""What is left of a golden capture when a filter is asked for."""

from pathlib import Path

from amqproxy.amqp091.frame import Frame, encode_method
from amqproxy.amqp091.methods import BasicPublish
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import records_of
from amqproxy.capture.filtering import filtered
from amqproxy.rules.matching.filters import Filter
from amqproxy.taps.note import Note

CAPTURE = Path(__file__).parents[2] / "captures" / "confirms.pcapng"


def kinds(expression: str) -> list[str | None]:
    return [
        record.method or record.type
        for passed in filtered(read_decoded(CAPTURE), Filter(expression))
        for record in records_of(passed)
    ]


def test_contents_come_with_their_method():
    assert kinds("method == 'basic.publish' && size == 8") == ["basic.publish", "header", "body"]


def test_nothing_else_is_left():
    assert set(kinds("method == 'confirm.select'")) == {"confirm.select"}
    assert kinds("queue == 'nothing like it'") == []


def test_tags_are_known() -> None:
    publish = Frame(encode_method(1, BasicPublish(exchange="e")))
    passed = [
        Amqp091DecodedFrames(1, 0, "10.0.0.1:4000-10.0.0.2:5672", "client", [publish], note=Note(tags=tags))
        for tags in ((), ("audit",))
    ]
    assert list(filtered(passed, Filter("'audit' in tags"))) == passed[1:]
