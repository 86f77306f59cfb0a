"""Keys of decisions that are cached, and what is cached by them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.errors import Scope
from amqproxy.amqp091.frame import METHOD, Frame, encode_frame, encode_method
from amqproxy.amqp091.methods import (
    BY_INDEX,
    BasicAck,
    BasicDeliver,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicReject,
    Method,
)
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.amqp091.wire import Field, Table
from amqproxy.rules.engine.decision_cache import CachedDecision, CachedPasses, cache_key, has_effect
from amqproxy.rules.engine.outcome import Outcome, OutcomeCounts
from amqproxy.rules.verdict import Answer, Close, HoldAction, Impairment, Insertion, MirroredCopy, Stage, Verdict
from tests.amqp091.strategies import methods
from tests.rules.commands import command


def key_of(method: Method) -> bytes:
    return cache_key(Frame(encode_method(7, method)))


@pytest.mark.parametrize(
    ("one", "other", "are_alike"),
    [
        (BasicAck(delivery_tag=1), BasicAck(delivery_tag=2**60), True),
        (BasicAck(delivery_tag=1), BasicAck(delivery_tag=1, multiple=True), False),
        (BasicAck(delivery_tag=1), BasicNack(delivery_tag=1), False),
        (BasicNack(delivery_tag=1), BasicNack(delivery_tag=2), True),
        (BasicReject(delivery_tag=1), BasicReject(delivery_tag=2), True),
        (BasicReject(delivery_tag=1), BasicReject(delivery_tag=1, requeue=False), False),
        (BasicGetOk(delivery_tag=1, exchange="a"), BasicGetOk(delivery_tag=2, exchange="a"), True),
        (BasicGetOk(delivery_tag=1, exchange="a"), BasicGetOk(delivery_tag=1, exchange="b"), False),
        (BasicDeliver("tag", 1, False, "a", "b"), BasicDeliver("tag", 2, False, "a", "b"), True),
        (BasicDeliver("tag", 1, False, "a", "b"), BasicDeliver("tag", 1, True, "a", "b"), False),
        (BasicDeliver("tag", 1, False, "a", "b"), BasicDeliver("gat", 1, False, "a", "b"), False),
        (BasicPublish(exchange="a"), BasicPublish(exchange="b"), False),
    ],
)
def test_all_counts_but_a_delivery_tag(one: Method, other: Method, are_alike: bool) -> None:
    assert (key_of(one) == key_of(other)) is are_alike


def test_a_delivery_that_is_cut_off_is_like_itself() -> None:
    payload = BasicDeliver("tag", 1, False, "a", "b").encode()
    for size in range(4, 9):
        assert cache_key(Frame(encode_frame(METHOD, 7, payload[:size]))) == payload[:size]


def other_value(value: Any) -> Any:
    """Another value of the same wire type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value ^ 1
    if isinstance(value, Table):
        return Table([*value.fields, Field("another", "V", None)])
    return value[:-1] if value else ("x" if isinstance(value, str) else b"x")


@given(methods.filter(lambda method: method.__struct_fields__ != ()), st.data())
def test_a_key_is_another_where_any_field_but_a_delivery_tag_is(method: Method, data: st.DataObject) -> None:
    field = data.draw(st.sampled_from(method.__struct_fields__))
    other = msgspec.structs.replace(method, **{field: other_value(getattr(method, field))})
    assert (key_of(other) == key_of(method)) is (field == "delivery_tag")


def test_methods_without_fields_have_keys_of_their_own() -> None:
    empty = [cls() for cls in BY_INDEX if not cls.__struct_fields__]
    assert len({key_of(method) for method in empty}) == len(empty) > 1


def test_a_cached_verdict_is_applied_to_another_command() -> None:
    first, second = command(BasicPublish(exchange="a"), 1), command(BasicPublish(exchange="a"), 2)
    passing = CachedDecision(first, Verdict(command=first), Stage.METHOD)
    assert passing.is_passing
    assert passing.verdict_on(second) == Verdict(command=second)
    marked = CachedDecision(first, Verdict(command=first, marks=("x",)), Stage.METHOD)
    assert not marked.is_passing
    assert marked.verdict_on(second) == Verdict(command=second, marks=("x",))
    refused = CachedDecision(first, Verdict(command=None), Stage.METHOD)
    assert refused.verdict_on(second).command is None
    changed = CachedDecision(first, Verdict(command=first.altered(method=BasicPublish(exchange="b"))), Stage.METHOD)
    altered = changed.verdict_on(second).command
    assert altered is not None
    assert (altered.channel, altered.method.exchange, altered.frames) == (2, "b", second.frames)


def test_what_goes_on_alike_is_known_by_nothing_else_becoming_of_it() -> None:
    sent = command(BasicPublish(exchange="a"), 1)
    other = sent.altered(method=BasicPublish(exchange="b"))
    for verdict, is_alike in (
        (Verdict(command=sent), True),
        (Verdict(command=other, marks=("x",)), True),
        (Verdict(command=None), False),
        (Verdict(command=other, delay=1.0), False),
        (Verdict(command=sent, logged=(("info", "x"),)), False),
    ):
        assert CachedDecision(sent, verdict, Stage.METHOD).goes_on_alike is is_alike
    spared = CachedPasses(CachedDecision(sent, Verdict(command=other), Stage.METHOD), ())
    assert spared.method == other.method


SOMETHING: dict[str, Any] = {
    "command": None,
    "answer": Answer.ACK,
    "close": Close(Scope.CHANNEL, 403, ""),
    "delay": 0.1,
    "behind": 1,
    "hold": HoldAction("x", 1.0),
    "insertions": (Insertion(CLIENT, command(BasicAck())),),
    "impairments": (Impairment(to=CLIENT),),
    "mirrored": (MirroredCopy(command(BasicPublish())),),
    "shown": command(BasicPublish()),
    "marks": ("x",),
    "tags": ("x",),
    "failures": (("r", "how"),),
    "logged": (("info", "x"),),
    "damage": ((1, 1),),
}


def test_every_field_of_a_verdict_but_is_final_is_an_effect() -> None:
    sent = command(BasicPublish())
    assert set(SOMETHING) == set(Verdict.__struct_fields__) - {"is_final", "returned"}
    for field, value in SOMETHING.items():
        assert has_effect(Verdict(**{"command": sent, field: value}), sent), field
    assert has_effect(Verdict(command=command(BasicPublish())), sent)
    assert not has_effect(Verdict(command=sent, is_final=True), sent)


def test_it_counts_for_the_rules_that_decided() -> None:
    sent = command(BasicPublish())
    known = CachedDecision(sent, Verdict(command=sent), Stage.METHOD)
    hit, shadowed = OutcomeCounts(), OutcomeCounts()
    known.counts = (hit.of(Outcome.REFUSED), shadowed.of(Outcome.SHADOW))
    known.count()
    known.count(4)
    assert (hit.hits, shadowed.shadow_hits) == (5, 5)
    assert (hit.verdicts, shadowed.hits) == ({"refused": 5}, 0)
