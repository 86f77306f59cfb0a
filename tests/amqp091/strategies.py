"""Hypothesis strategies: all that AMQP 0-9-1 can express."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import BODY, HEADER, HEARTBEAT_FRAME, encode_frame, encode_method
from amqproxy.amqp091.methods import BY_INDEX, Method
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.amqp091.wire import Array, Field, Item, Table


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _integers(bits: int, *, is_signed: bool) -> st.SearchStrategy[int]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if is_signed else (0, 2**bits)
    return st.integers(low, high - 1)


any_text = st.one_of(st.text(max_size=40), st.binary(max_size=255).map(_text))
"""Text of a peer, which is often not UTF-8; at most 255 bytes."""
utf8_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)

_SIMPLE = {
    "t": st.booleans(),
    "b": _integers(8, is_signed=True),
    "B": _integers(8, is_signed=False),
    "s": _integers(16, is_signed=True),
    "U": _integers(16, is_signed=True),
    "u": _integers(16, is_signed=False),
    "I": _integers(32, is_signed=True),
    "i": _integers(32, is_signed=False),
    "l": _integers(64, is_signed=True),
    "L": _integers(64, is_signed=True),
    "T": _integers(64, is_signed=False),
    "f": st.floats(width=32, allow_nan=False),
    "d": st.floats(allow_nan=False),
    "D": st.builds(
        lambda digits, scale: Decimal(f"{digits}E-{scale}"), st.integers(-(2**31), 2**31 - 1), st.integers(0, 255)
    ),
    "S": any_text,
    "x": st.binary(max_size=40),
    "V": st.none(),
}

TYPES = (*_SIMPLE, "F", "A")
"""The letters of all types."""


def _nested(items: st.SearchStrategy[Item]) -> st.SearchStrategy[Item]:
    fields = st.lists(st.builds(lambda name, item: Field(name, *item), any_text, items), max_size=4)
    return st.one_of(
        fields.map(lambda entries: Item("F", Table(entries))),
        st.lists(items, max_size=4).map(lambda entries: Item("A", Array(entries))),
    )


items = st.recursive(
    st.one_of([st.builds(Item, st.just(letter), values) for letter, values in _SIMPLE.items()]), _nested, max_leaves=12
)
"""Values of tables and arrays, of every type, with their types."""

tables = st.lists(st.builds(lambda name, item: Field(name, *item), any_text, items), max_size=6).map(Table)

_BY_LETTER: dict[str, st.SearchStrategy[Any]] = {
    "o": _integers(8, is_signed=False),
    "h": _integers(16, is_signed=False),
    "l": _integers(32, is_signed=False),
    "q": _integers(64, is_signed=False),
    "s": utf8_text,
    "u": any_text,
    "S": st.binary(max_size=300),
    "F": tables,
    "b": st.booleans(),
}


def methods_of(cls: type[Method], *, short_strings: st.SearchStrategy[str] = any_text) -> st.SearchStrategy[Method]:
    fields = _BY_LETTER | {"u": short_strings}
    return st.builds(cls, *[fields[letter] for letter in cls.layout.decode()])


methods = st.sampled_from(BY_INDEX).flatmap(methods_of)
properties = st.builds(Properties, *[st.one_of(st.none(), _BY_LETTER[letter]) for letter in Properties.layout.decode()])
headers = st.builds(ContentHeader, _BY_LETTER["q"], properties)
channels = st.integers(1, 65535)

_plain_methods = methods.filter(lambda method: not method.carries_content and method.class_id > 20)
_content_methods = st.sampled_from([cls for cls in BY_INDEX if cls.carries_content]).flatmap(methods_of)


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Frames as one side may send them: contents on two channels, interleaved."""
    content_states: dict[int, list[bytes]] = {}
    for channel in (1, 2):
        frames = content_states[channel] = []
        for _ in range(draw(st.integers(0, 3))):
            if draw(st.booleans()):
                frames.append(encode_method(channel, draw(_plain_methods)))
                continue
            pieces = draw(st.lists(st.binary(min_size=1, max_size=20), max_size=3))
            header = ContentHeader(sum(map(len, pieces)), draw(properties))
            frames.append(encode_method(channel, draw(_content_methods)))
            frames.append(encode_frame(HEADER, channel, header.encode()))
            frames.extend(encode_frame(BODY, channel, piece) for piece in pieces)
    mixed = []
    while any(content_states.values()):
        mixed.append(
            draw(st.sampled_from([content_state for content_state in content_states.values() if content_state])).pop(0)
        )
        if draw(st.booleans()):
            mixed.append(HEARTBEAT_FRAME)
    return b"".join(mixed)


@st.composite
def mutated(draw: st.DrawFn, data: st.SearchStrategy[bytes]) -> bytes:
    """Bytes with a few of them changed, left out or put in."""
    whole = bytearray(draw(data))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(whole)))
        match draw(st.sampled_from(("change", "cut", "insert"))):
            case "change" if at < len(whole):
                whole[at] = draw(st.integers(0, 255))
            case "cut":
                del whole[at : at + draw(st.integers(1, 8))]
            case _:
                whole[at:at] = draw(st.binary(max_size=8))
    return bytes(whole)


def pieces(data: bytes, sizes: list[int]) -> list[bytes]:
    """`data` cut into pieces of these sizes, over and over; one byte each when there are none."""
    cut, at, turn = [], 0, 0
    while at < len(data):
        size = sizes[turn % len(sizes)] if sizes else 1
        cut.append(data[at : at + size])
        at, turn = at + size, turn + 1
    return cut


def attempt(function: Callable[..., Any], *arguments: Any) -> Any:
    """What the function returns, or the `ProtocolError` that it ends in; any other exception is a bug."""
    try:
        return function(*arguments)
    except ProtocolError as error:
        return error


splits = st.lists(st.integers(1, 40), max_size=5)
