"""What is a difference between fields of 0-10, and what a known fault of tshark explains."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from amqproxy.amqp010.commands import ExchangeBind, MessageAccept, MessageSubscribe, QueueDeclare, TxCommit
from amqproxy.amqp010.controls import ConnectionStartOk
from amqproxy.amqp010.frame import Frame, encode_method
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.wire import Map
from amqproxy.taps.record import MASK
from amqproxy.tshark.amqp010 import known_faults as amqp010_faults
from amqproxy.tshark.amqp010.field_comparison import amqp010_field_differences
from amqproxy.tshark.dissected_frame import DissectedFrame, Shown
from amqproxy.tshark.field_comparison import FieldDifference


def shown(text: str, data: bytes = b"", *within: Shown) -> Shown:
    return Shown("", text, data.hex(), within)


def entry(label: str) -> Shown:
    return Shown(label, "", "")


def compared(method: Method, number: int | None = None, **fields: Shown) -> list[FieldDifference]:
    """What differs between a method and what is shown of it; `number` is what tshark takes it for."""
    frame = Frame(encode_method(1, method))
    taken_for = (method.class_code, method.method_code if number is None else number)
    dissected = DissectedFrame(packet=1, stream=0, source_port=1, type="command", method=taken_for, fields=fields)
    return list(amqp010_field_differences(frame, dissected))


QUEUE = shown("q", b"\1q")


def test_fields_that_are_the_same() -> None:
    bits = {"passive": shown("0", b"\0"), "durable": shown("1", b"\1")}
    assert compared(QueueDeclare("q", durable=True), queue=QUEUE, **bits) == []
    accept = MessageAccept(SequenceSet([(0, 6), (8, 8)]))
    assert compared(accept, transfers=shown("Commands [(0, 6), (8, 8)]")) == []


@pytest.mark.parametrize(
    ("fields", "differing"),
    [
        ({"queue": shown("r", b"\1r")}, "queue"),
        ({}, "queue"),
        ({"queue": QUEUE, "durable": shown("1")}, "durable"),
        ({"queue": QUEUE, "colour": shown("red")}, "colour"),
    ],
)
def test_fields_that_are_not(fields: dict[str, Shown], differing: str) -> None:
    (found,) = compared(QueueDeclare("q"), **fields)
    assert (found.field, found.known) == (differing, None)


def test_entries_of_a_map() -> None:
    declare = QueueDeclare("q", arguments=Map({"n": 1, "t": "x" * 300, "f": 1.5, "u": 2**40}))
    labels = ["n (int32): 1", " [truncated]t (str16): xxx", "f (double): 1.500000", "u (unimplemented type): (8 bytes)"]
    same = [entry(each) for each in labels]
    assert compared(declare, queue=QUEUE, arguments=shown("4 entries", b"", *same)) == []
    (found,) = compared(declare, queue=QUEUE, arguments=shown("", b"", entry("n (int32): 2"), *same[1:]))
    assert (found.field, found.theirs, found.known) == ("arguments.n", "n (int32): 2", None)
    (fewer,) = compared(declare, queue=QUEUE, arguments=shown("", b"", *same[:3]))
    assert (fewer.ours, fewer.theirs, fewer.known) == ("4 entries", "3 entries", None)


def test_ids_that_are_others() -> None:
    (found,) = compared(MessageAccept(SequenceSet([(0, 6)])), transfers=shown("Commands [(0, 7)]"))
    assert (found.field, found.known) == ("transfers", None)


def test_faults_that_are_known() -> None:
    (found,) = compared(TxCommit(), number=1)
    assert (found.field, found.known) == ("method", amqp010_faults.TX)
    (found,) = compared(QueueDeclare(), number=2)
    assert (found.field, found.known) == ("method", None)
    (found,) = compared(ExchangeBind(binding_key="k"), binding_key=shown("\\x1", b"\1"))
    assert found.known == amqp010_faults.BINDING_KEY
    (found,) = compared(MessageSubscribe(arguments=Map({})), arguments=shown("", b"", entry("rubbish")))
    assert found.known == amqp010_faults.SUBSCRIBE_ARGUMENTS


def test_what_tshark_gives_up_explains_what_it_does_not_show_and_nothing_else() -> None:
    frame = Frame(encode_method(1, QueueDeclare("q", "other")))
    fields = {"queue": shown("r", b"\1r")}
    dissected = DissectedFrame(packet=1, stream=0, source_port=1, type="command", method=(8, 1), fields=fields)
    given_up = replace(dissected, is_given_up=True)
    known = {each.field: each.known for each in amqp010_field_differences(frame, given_up)}
    assert known == {"queue": None, "alternate_exchange": amqp010_faults.GIVEN_UP}


def test_secrets_are_masked() -> None:
    method = ConnectionStartOk(mechanism="PLAIN", response=b"\0guest\0secret")
    (found,) = compared(method, mechanism=shown("PLAIN", b"\5PLAIN"), response=shown("other", b"other"))
    assert (found.field, found.ours, found.theirs) == ("response", MASK, MASK)
