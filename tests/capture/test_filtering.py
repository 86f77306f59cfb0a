"""What is left of a golden capture when a filter is asked for."""

from pathlib import Path

from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import records_of
from amqproxy.capture.filtering import filtered
from amqproxy.rules.matching.filters import Filter

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
