"""What two verdicts come to, one after the other."""

from __future__ import annotations

from itertools import product

import msgspec
import pytest

from amqproxy.amqp091.errors import Scope
from amqproxy.amqp091.methods import BasicPublish, TxSelect
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.rules.verdict import Answer, Close, HoldAction, Impairment, Insertion, MirroredCopy, Verdict
from tests.rules.scene import from_client

COMMAND = from_client(BasicPublish()).command
OTHER = from_client(TxSelect()).command

NOTHING = Verdict(command=COMMAND)
FIRST = Verdict(
    command=COMMAND,
    answer=Answer.NACK,
    returned=(313, "first"),
    close=Close(Scope.CHANNEL, 403, "first"),
    delay=1.0,
    behind=2,
    hold=HoldAction("first", 1),
    insertions=(Insertion(CLIENT, COMMAND),),
    impairments=(Impairment(CLIENT),),
    mirrored=(MirroredCopy(COMMAND),),
    shown=OTHER,
    marks=("first",),
    tags=("first",),
    failures=(("first", "how"),),
    logged=(("info", "first"),),
    damage=((1, 1),),
    is_final=True,
)
SECOND = Verdict(
    command=OTHER,
    answer=Answer.RETURN,
    returned=(314, "second"),
    close=Close(Scope.CONNECTION, 320, "second"),
    delay=2.0,
    behind=1,
    hold=HoldAction("second", 2),
    insertions=(Insertion(SERVER, OTHER),),
    impairments=(Impairment(SERVER),),
    mirrored=(MirroredCopy(OTHER, "away"),),
    shown=COMMAND,
    marks=("second",),
    tags=("second",),
    failures=(("second", "how"),),
    logged=(("error", "second"),),
    damage=((2, 2),),
    is_final=False,
)


def test_the_command_of_0_10_that_a_text_is_about() -> None:
    text = "ACCESS_REFUSED - basic.publish to exchange 'basic.publish'"
    close = Close(Scope.CHANNEL, 403, text, named="basic.publish")
    named = Verdict(command=None, close=close).naming("message.transfer")
    assert named.close is not None
    assert named.close.text == "ACCESS_REFUSED - message.transfer to exchange 'basic.publish'"
    long = Verdict(command=None, close=msgspec.structs.replace(close, text="basic.publish " + "x" * 241))
    renamed = long.naming("message.transfer").close
    assert renamed is not None
    assert renamed.text.startswith("message.transfer xxx")
    assert len(renamed.text) <= 255
    for same in (NOTHING, FIRST):  # it passes; its text is the rule's own
        assert same.naming("message.transfer") is same


LATER = frozenset({"command", "answer", "returned", "is_final"})
"""What is always the later verdict's."""

OF_ONE = {"close": "later", "hold": "earlier", "shown": "later"}
"""What is one verdict's alone, and whose where both have it."""

FIELDS = Verdict.__struct_fields__


def expected(field: str, earlier: object, later: object, default: object) -> object:
    """Written out for each field, where `Verdict.then` looks only at those that the earlier verdict has."""
    if field in LATER:
        return later
    if field in OF_ONE:
        both = (later, earlier) if OF_ONE[field] == "later" else (earlier, later)
        return next((each for each in both if each is not None), default)
    if field == "behind":
        return max(earlier, later)  # type: ignore[call-overload]
    return earlier + later  # type: ignore[operator]


@pytest.mark.parametrize("field", FIELDS)
def test_each_field_of_two_verdicts(field: str) -> None:
    default = getattr(NOTHING, field)
    mine, theirs = getattr(FIRST, field), getattr(SECOND, field)
    for a, b in product((default, mine), (default, theirs)):
        come_to = msgspec.structs.replace(NOTHING, **{field: a}).then(msgspec.structs.replace(NOTHING, **{field: b}))
        assert getattr(come_to, field) == expected(field, a, b, default)


@pytest.mark.parametrize(("earlier", "later"), list(product((NOTHING, FIRST, SECOND), repeat=2)))
def test_all_fields_together(earlier: Verdict, later: Verdict) -> None:
    come_to = earlier.then(later)
    for field in FIELDS:
        default = getattr(NOTHING, field)
        assert getattr(come_to, field) == expected(field, getattr(earlier, field), getattr(later, field), default)


def test_an_empty_verdict_leaves_the_later_one_as_it_is() -> None:
    assert NOTHING.then(SECOND) is SECOND
