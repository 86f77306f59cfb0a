"""The fields of frames of AMQP 0-10, with their bytes: held against the codec, for all methods and headers."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import ExchangeBind, MessageSubscribe, MessageTransfer, QueueDeclare
from amqproxy.amqp010.controls import ConnectionSecureOk, ConnectionStartOk
from amqproxy.amqp010.frame import COMMAND, FIRST_FRAME, HEADER, LAST_FRAME, Frame, encode_frame, encode_method
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.properties import DeliveryProperties, Header, MessageProperties, ReplyTo
from amqproxy.amqp010.wire import Map
from amqproxy.dashboard.amqp010_dissection import amqp010_dissected
from amqproxy.dashboard.field import Field
from amqproxy.peer import CLIENT
from amqproxy.rules.amqp010.assembly_filter import AssemblyFilter
from amqproxy.rules.context import Client
from amqproxy.rules.matching.filters import compiled
from amqproxy.taps.amqp010.record import arguments, plain
from amqproxy.taps.record import MASK, encoded
from tests.amqp010.samples import HEARTBEAT, split
from tests.amqp010.strategies import headers, methods
from tests.dashboard.dissected_fields import as_shown, check_tiling, filters_in
from tests.example_count import example_count

MODEST = settings(max_examples=example_count(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def named(fields: list[Field]) -> dict[str, Field]:
    """The fields by their names, bits with them."""
    found: dict[str, Field] = {}
    for field in fields:
        found[field.name] = field
        if field.name == "packing flags":
            found |= {each.name: each for each in field.children}
    return found


@MODEST
@given(methods, st.integers(0, 65_535))
def test_a_method_is_covered_and_has_the_values_of_its_record(method: Method, channel: int) -> None:
    data = encode_method(channel, method)
    for raw in split(data):
        shown, fields = amqp010_dissected(Frame(raw))
        check_tiling(fields, 0, len(shown))
        encoded(fields)
    if len(raw) != len(data):
        return
    found = named(fields[7:])
    assert fields[5].value == channel
    assert method.name in (fields[8].value,)
    for name, value in arguments(method).items():
        field = found[name]
        if not field.children and "…" not in str(field.value):
            assert encoded(field.value) == encoded(as_shown(value))


@MODEST
@given(headers)
def test_a_header_is_covered_and_has_the_values_of_its_structs(header: Header) -> None:
    raw = encode_frame(FIRST_FRAME | LAST_FRAME, HEADER, 1, header.encode())
    shown, fields = amqp010_dissected(Frame(raw))
    check_tiling(fields, 0, len(shown))
    encoded(fields)
    structs = [field for field in fields if field.type == "struct32"]
    assert len(structs) == len(header.entries)
    for field, entry in zip(structs, header.entries, strict=True):
        found = named(list(field.children))
        for name, value in getattr(entry, "present", dict)().items():
            if not found[name].children and "…" not in str(found[name].value):
                assert encoded(found[name].value) == encoded(as_shown(plain(value)))


@MODEST
@given(st.binary(max_size=60), st.sampled_from([HEADER, COMMAND]))
def test_what_is_malformed_is_covered_too(payload: bytes, kind: int) -> None:
    raw, fields = amqp010_dissected(Frame(encode_frame(FIRST_FRAME | LAST_FRAME, kind, 1, payload)))
    check_tiling(fields, 0, len(raw))
    encoded(fields)


def test_other_frames() -> None:
    parts = split(Assembly(1, MessageTransfer("x"), None, b"b" * 9000).encode(frame_max=4096))
    for raw in (HEARTBEAT, *parts):
        check_tiling(amqp010_dissected(Frame(raw))[1], 0, len(raw))
    large = MessageSubscribe("q", "c", arguments=Map({"x": "y" * 5000}))
    fields = [amqp010_dissected(Frame(raw))[1] for raw in split(encode_method(1, large, 4096))]
    assert [each[-1].name for each in fields] == ["part of a command"] * 2


@pytest.mark.parametrize(
    "method", [ConnectionSecureOk(b"hunter2"), ConnectionStartOk(None, "PLAIN", b"\0guest\0hunter2")]
)
def test_a_password_is_neither_in_the_bytes_nor_in_the_fields(method: Method) -> None:
    raw, fields = amqp010_dissected(Frame(encode_method(0, method)))
    assert b"hunter2" not in raw
    assert b"hunter2" not in encoded(fields)
    assert named(fields)["response"].value == MASK


MESSAGE = Assembly(
    3,
    MessageTransfer("orders", 0, 0),
    Header(
        (
            DeliveryProperties(True, priority=5, routing_key='eu."new"', ttl=60_000, timestamp=1),
            MessageProperties(
                content_type="text/plain",
                correlation_id=b"7",
                reply_to=ReplyTo("", "answers"),
                application_headers=Map({'a "b"': "c", "n": -3, "urgent": True, "in": {"k": "v"}, "ratio": 0.5}),
            ),
        )
    ),
    b"{}",
)
REQUESTS = [
    Assembly(1, QueueDeclare("q", durable=True, arguments=Map({"qpid.max_count": 3}))),
    Assembly(1, ExchangeBind("q", "amq.topic", "a.#")),
    Assembly(1, MessageSubscribe("q", "c", 1, 0, exclusive=True)),
]


@pytest.mark.parametrize("assembly", [MESSAGE, *REQUESTS], ids=lambda assembly: assembly.method.name)
def test_what_a_click_filters_by_holds_for_the_command(assembly: Assembly) -> None:
    frames = [Frame(raw) for raw in split(assembly.encode())]
    filters = [each for frame in frames for each in filters_in(amqp010_dissected(frame)[1])]
    assert len(filters) >= 5
    for each in filters:
        chosen: AssemblyFilter[None] = AssemblyFilter(compiled(each), Client.named(1, "a-b"))
        assert len(chosen.sift(CLIENT, frames, [None] * len(frames), 0.0)) == len(frames), each
