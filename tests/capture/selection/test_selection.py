"""Which connections and channels are followed."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.amqp091.frame import Frame, encode_method
from amqproxy.amqp091.methods import ConnectionStartOk
from amqproxy.amqp091.wire import Table
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decoded import Decoded, StreamEnded
from amqproxy.capture.selection.conversation import MAX_LISTED, Conversation
from amqproxy.capture.selection.selection import Selection
from amqproxy.capture.selection.time_window import TimeWindow, moment
from tests.capture import golden
from tests.example_count import example_count
from tests.views.followed import decoded, records


def start_ok(stream: int, name: str | None) -> Amqp091DecodedFrames:
    properties = Table({} if name is None else {"connection_name": name})
    method = ConnectionStartOk(client_properties=properties, mechanism="PLAIN", response=b"", locale="en_US")
    return frames(stream, Frame(encode_method(0, method)))


def frames(stream: int, *given: Frame) -> Amqp091DecodedFrames:
    return Amqp091DecodedFrames(stream, stream, f"10.0.0.1:{4000 + stream}-10.0.0.2:5672", "client", list(given))


def chosen(text: str, passed: list[Decoded]) -> list[int]:
    return sorted({each.stream for each in Selection(Conversation(text)).connections(passed)})


@pytest.mark.parametrize(
    ("text", "streams"),
    [
        ("1", [1]),
        ("#1", [1]),
        ("4002", [2]),
        (":4002", [2]),
        ("10.0.0.1", [0, 1, 2]),
        ("orders", [0, 2]),
        ("ORDERS-W", [0]),
        ("orders/eu", [2]),
        ("nobody", []),
        ("400", []),
    ],
)
def test_a_connection_is_followed_by_number_port_address_or_given_name(text: str, streams: list[int]) -> None:
    named = ["orders-worker", None, "orders/eu"]
    passed: list[Decoded] = [start_ok(stream, name) for stream, name in enumerate(named)]
    passed += [StreamEnded(9, stream, each.connection, "over") for stream, each in enumerate(passed)]
    assert chosen(text, passed) == streams


@settings(max_examples=example_count(60), deadline=None)
@given(st.sampled_from([path.name.partition(".pcap")[0] for path in golden.captures()]), st.data())
def test_to_follow_is_to_filter_records(name: str, data: st.DataObject) -> None:
    passed = decoded(name)
    everything = records(passed)
    places = sorted({(each.stream, each.channel) for each in everything if each.channel is not None})
    stream, channel = data.draw(st.sampled_from(places))
    with_channel = data.draw(st.booleans())
    text = f"{stream}/{channel}" if with_channel else str(stream)
    conversation = Conversation(text)
    selection = Selection(conversation)
    found = records(selection.narrowed(selection.connections(passed)))
    assert found == [
        each
        for each in everything
        if each.stream == stream
        and (not with_channel or (each.channel or 0) == channel or (each.type == "error" and each.channel is None))
    ]
    assert conversation.why_nothing() is None


def test_a_window_selects_records_by_their_times() -> None:
    passed = decoded("confirms")
    everything = records(passed)
    first, middle = everything[0].ts_ns, everything[len(everything) // 2].ts_ns
    selection = Selection(None, TimeWindow(moment(f"+{(middle - first) / 1e9:.9f}"), None))
    assert records(selection.narrowed(selection.connections(passed))) == [
        each for each in everything if each.ts_ns >= middle
    ]


def test_what_there_is_is_listed_where_nothing_is_found() -> None:
    passed: list[Decoded] = [start_ok(stream, "worker") for stream in range(MAX_LISTED + 5)]
    conversation = Conversation("elsewhere")
    assert not list(conversation.followed(passed))
    reason = conversation.why_nothing() or ""
    assert "#0 10.0.0.1:4000-10.0.0.2:5672 (worker)" in reason
    assert "and 5 more" in reason
    conversation = Conversation("elsewhere")
    assert not list(conversation.followed([start_ok(0, "\x1b[31m\n")]))
    assert "(\\u001b[31m\\n)" in (conversation.why_nothing() or "")
    conversation = Conversation("3/17")
    assert len(list(conversation.followed(passed))) == 1
    assert conversation.why_nothing() == "no channel is 3/17: there are 0"
    conversation = Conversation("x")
    assert not list(conversation.followed([]))
    assert "none at all" in (conversation.why_nothing() or "")


def test_what_is_held_until_a_name_is_known_is_bounded_and_not_lost() -> None:
    greeting = [frames(0, *[]) for _ in range(3)]
    passed: list[Decoded] = [*greeting, start_ok(0, "orders"), frames(0)]
    assert list(Conversation("orders").followed(passed)) == passed
    endless = (frames(0) for _ in itertools.count())
    conversation = Conversation("orders")
    assert not list(conversation.followed(itertools.islice(endless, 1000)))
    assert "#0" in (conversation.why_nothing() or "")
