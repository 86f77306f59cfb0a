"""What a reader lets pass without making a frame of it."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import (
    BODY,
    HEADER,
    METHOD,
    Frame,
    encode_frame,
    encode_method,
)
from amqproxy.amqp091.frame_reader import EVERY_METHOD, FrameReader
from amqproxy.amqp091.methods import (
    BasicPublish,
    BasicQos,
)
from amqproxy.amqp091.pass_cache import CachedPass, Credit, PassCache
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.amqp091.wire import Table
from tests.amqp091 import strategies
from tests.amqp091.samples import publishes


def test_a_content_is_handed_over_with_its_method_unless_that_may_pass_unseen():
    reader = FrameReader()
    reader.open_content_state(1)
    wanted = bytearray(len(EVERY_METHOD))
    wanted[BasicPublish.index] = 1
    reader.want(bytes(wanted), content=False)
    passes = CachedPass(BasicPublish(routing_key="a").encode())
    reader.unseen = PassCache()
    reader.unseen.add(passes)
    frames = reader.feed(b"".join(publishes("a", "b", "a")))
    assert [frame.kind for frame in frames] == [METHOD, HEADER, BODY]
    assert frames[0].method.routing_key == "b"
    assert frames[0].ordinal == 2
    assert passes.count == 2
    assert reader.content_states[1].contents == 3


def test_all_of_a_lane_that_is_watched_is_handed_over():
    reader = FrameReader()
    reader.open_content_state(1).is_watched = True
    reader.want(bytes(len(EVERY_METHOD)), content=False)
    reader.unseen = PassCache()
    reader.unseen.add(CachedPass(BasicPublish(routing_key="a").encode()))
    assert len(reader.feed(b"".join(publishes("a", "b")))) == 6


PLAIN = BasicPublish(routing_key="plain").encode()


NAMED = st.one_of(
    st.none(),
    st.dictionaries(
        st.sampled_from(["CC", "BCC", "cc", "C", "XCC", "CCC", "other"]), st.sampled_from(["CC", "x", "C"])
    ),
    strategies.tables,
)


def _has_names(properties: Properties) -> bool:
    return bool(properties.reply_to is not None or {"CC", "BCC"} & set(properties.headers or ()))


@given(
    properties=strategies.properties,
    headers=NAMED,
    cuts=st.lists(st.integers(1, 60), max_size=6),
    spoiled=st.none() | st.tuples(st.integers(0, 400), st.integers(0, 255)),
    is_elsewhere=st.booleans(),
)
def test_no_header_with_further_names_passes_behind_a_method_that_passes_if_it_is_plain(
    properties: Properties,
    headers: dict[str, str] | None,
    cuts: list[int],
    spoiled: tuple[int, int] | None,
    is_elsewhere: bool,
):
    """However it is cut, whatever is changed in it, and whatever other channels send in between."""
    if headers is not None:
        properties = replace(properties, headers=Table(headers))
    content_header = bytearray(ContentHeader(0, properties).encode())
    if spoiled is not None:
        content_header[spoiled[0] % len(content_header)] = spoiled[1]
    data = encode_frame(METHOD, 1, PLAIN) + encode_method(2, BasicQos()) * is_elsewhere
    data += encode_frame(HEADER, 1, bytes(content_header)) * 1
    passes = CachedPass(PLAIN, if_plain=True)
    reader = _sparing(passes)
    reader.open_content_state(2)
    frames = []
    for cut in [*cuts, len(data)]:
        frames += reader.feed(data[:cut])
        data = data[cut:]
        if reader.error is not None:
            return
    if passes.count:
        assert frames == []
        try:
            passed = Frame(encode_frame(HEADER, 1, bytes(content_header))).header.properties
        except ProtocolError:
            return  # no reader could decode it
        assert not _has_names(passed)
    else:
        assert [frame.kind for frame in frames] == [METHOD, HEADER]


@pytest.mark.parametrize(
    ("properties", "passes_by"),
    [
        (Properties(), True),
        (Properties(content_type="CC", app_id="CC"), True),
        (Properties(headers=Table({"n": 1, "C": "C"})), True),
        (Properties(headers=Table({"CC": ["a"]})), False),
        (Properties(headers=Table({"n": 1, "BCC": ["a"]})), False),
        (Properties(headers=Table({"n": "a CC in a text"})), False),  # in doubt it is looked at
        (Properties(reply_to="a"), False),
    ],
)
def test_a_method_that_passes_if_it_is_plain(properties: Properties, passes_by: bool):
    passes = CachedPass(PLAIN, if_plain=True)
    data = encode_frame(METHOD, 1, PLAIN) + encode_frame(HEADER, 1, ContentHeader(0, properties).encode())
    frames = _sparing(passes).feed(data * 3)
    assert passes.count == 3 * passes_by
    assert len(frames) == 6 * (not passes_by)


def test_a_method_is_handed_over_whose_header_is_not_there_yet():
    passes = CachedPass(PLAIN, if_plain=True)
    reader = _sparing(passes)
    content_header = encode_frame(HEADER, 1, ContentHeader(0).encode())
    for count in range(len(content_header)):
        frames = reader.feed(encode_frame(METHOD, 1, PLAIN) + content_header[:count])
        frames += reader.feed(content_header[count:])
        assert [frame.kind for frame in frames] == [METHOD, HEADER]
    assert passes.count == 0


@pytest.mark.parametrize(("size", "passes_by"), [(0, True), (10, True), (11, False), ((1 << 64) - 1, False)])
def test_a_method_that_passes_with_a_small_body(size: int, passes_by: bool):
    passes = CachedPass(PLAIN, largest=10)
    frames = _sparing(passes).feed(
        encode_frame(METHOD, 1, PLAIN) + encode_frame(HEADER, 1, ContentHeader(size).encode())
    )
    assert passes.count == passes_by
    assert len(frames) == 2 * (not passes_by)


def test_a_method_is_handed_over_whose_body_size_is_not_there_yet():
    passes = CachedPass(PLAIN, largest=10)
    reader = _sparing(passes)
    content_header = encode_frame(HEADER, 1, ContentHeader(0).encode())
    for count in range(19):
        frames = reader.feed(encode_frame(METHOD, 1, PLAIN) + content_header[:count])
        frames += reader.feed(content_header[count:])
        assert [frame.kind for frame in frames] == [METHOD, HEADER]
    assert passes.count == 0


def _sparing(*passes: CachedPass) -> FrameReader:
    reader = FrameReader()
    reader.open_content_state(1)
    wanted = bytearray(len(EVERY_METHOD))
    wanted[BasicPublish.index] = 1
    reader.want(bytes(wanted), content=False)
    reader.unseen = PassCache()
    for each in passes:
        reader.unseen.add(each)
    return reader


def _as(key: str, other: str) -> CachedPass:
    return CachedPass(BasicPublish(routing_key=key).encode(), BasicPublish(routing_key=other).encode())


def test_methods_may_go_on_as_others():
    reader = _sparing(_as("a", "longer"), _as("long", "b"))
    sent = b"".join(publishes("a", "c", "long", "a"))
    frames = reader.feed(sent)
    assert [frame.kind for frame in frames] == [METHOD, HEADER, BODY]
    a, c, _, _ = (len(each) for each in publishes("a", "c", "long", "a"))
    went_on = reader.between(0, a), reader.between(a, a + c), reader.between(a + c, len(sent))
    assert [bytes(each) for each in went_on] == [
        b"".join(publishes("longer")),
        b"".join(publishes("c")),
        b"".join(publishes("b", "longer")),
    ]
    assert bytes(reader.taken) == sent
    assert reader.feed(publishes("c")[0])
    assert reader.between(len(sent), reader.offset) is reader.taken


@given(
    st.lists(st.sampled_from(["a", "b", "c", "d" * 20]), max_size=12),
    st.lists(st.integers(1, 90), min_size=1, max_size=40),
)
def test_however_bytes_are_chunked_the_same_methods_are_replaced(keys, sizes):
    others = {"a": "longer", "d" * 20: "x", "b": "b"}
    reader = _sparing(*[_as(key, other) for key, other in others.items()])
    sent = b"".join(publishes(*keys))
    went_on = b""
    for size in [*sizes, len(sent)]:
        frames = reader.feed(sent[:size])
        sent = sent[size:]
        assert all(frame.kind != METHOD or frame.method.routing_key == "c" for frame in frames)
        bounds = sorted({reader.taken_from, *[frame.offset for frame in frames], reader.offset})
        for start, end in pairwise(bounds):
            went_on += reader.between(start, end)
    assert went_on == b"".join(publishes(*[others.get(key, key) for key in keys]))


def test_what_passes_unseen_takes_of_its_allowances():
    allowance, other = Credit(3), Credit(1)
    a = CachedPass(BasicPublish(routing_key="a").encode(), None, (allowance,))
    b = CachedPass(BasicPublish(routing_key="b").encode(), None, (allowance, other))
    reader = _sparing(a, b)
    frames = reader.feed(b"".join(publishes("a", "b", "b", "a")))
    assert [frame.method.routing_key for frame in frames if frame.kind == METHOD] == ["b", "a"], (
        "some must be left for b"
    )
    assert (a.count, b.count) == (1, 1)
    assert (allowance.left, allowance.spent, other.left) == (1, 2, 0)
    assert reader.spending == [allowance, other]
    b.take_back()
    assert (b.count, allowance.left, other.left) == (0, 2, 1)
    allowance.settle(0)
    assert allowance.spent == 0
    allowance.end()
    assert allowance.is_over
    assert len(reader.feed(publishes("a")[0])) == 3


@given(st.lists(st.binary(max_size=40), unique=True, max_size=30), st.lists(st.binary(max_size=40), max_size=30))
def test_what_is_to_be_passed_is_found_by_all_of_its_payload(known, others):
    keys = {bytes(key).hex() for key in known}
    passes = {key: CachedPass(BasicPublish(routing_key=key).encode()) for key in keys}
    reader = _sparing(*passes.values())
    sent = [*keys, *[bytes(key).hex() for key in others], *keys]
    for key in sent:
        assert bool(reader.feed(publishes(key)[0])) == (key not in keys)
    assert {key: each.count for key, each in passes.items()} == {key: sent.count(key) for key in keys}
