"""Which frames are printed, and how."""

import msgspec
import pytest

from amqproxy.amqp091.frame import Frame, encode_method
from amqproxy.amqp091.methods import BasicAck
from amqproxy.cli.failure import MISUSED, Failure
from amqproxy.cli.printing import renderer, wanted, with_values_left_out
from amqproxy.taps.record import record_frame

RECORD = record_frame(
    Frame(encode_method(1, BasicAck(7))), ts_ns=1_700_000_000_000_456_789, stream=3, connection="a-b", sender="client"
)


def test_a_line_for_a_person_and_one_for_a_program() -> None:
    assert renderer(json=False)(RECORD) == "22:13:20.000456 #3   → ch 1    basic.ack  delivery_tag=7"
    assert msgspec.json.decode(renderer(json=True)(RECORD))["arguments"] == {"delivery_tag": 7, "multiple": False}


def test_everything_is_printed_by_default() -> None:
    assert wanted(None) is None
    assert wanted("method == 'basic.ack'") is not None


@pytest.mark.parametrize("expression", ["", "method ==", "metod == 'basic.ack'", "size"])
def test_an_expression_that_is_none(expression: str) -> None:
    with pytest.raises(Failure, match=r"^--filter: ") as failure:
        wanted(expression)
    assert failure.value.code == MISUSED


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["decode", "--body", "a"], ["decode", "--body=1024", "a"]),
        (["run", "--print", "--body"], ["run", "--print", "--body=1024"]),
        (["decode", "--body=3", "--", "--body"], ["decode", "--body=3", "--", "--body"]),
        (["control", "held", "--body", "3"], ["control", "held", "--body", "3"]),
        ([], []),
    ],
)
def test_the_number_of_bytes_of_a_body_may_be_left_out(arguments: list[str], expected: list[str]) -> None:
    assert with_values_left_out(arguments) == expected
