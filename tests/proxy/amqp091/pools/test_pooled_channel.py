"""A pooled channel sends whole messages, and knows what the broker has not confirmed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.frame import BODY, HEADER, Frame, encode_frame, encode_method
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicNack,
    BasicPublish,
    ChannelClose,
    ChannelFlowOk,
    ConfirmSelectOk,
    QueueBindOk,
    QueueDeclareOk,
)
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.proxy.amqp091.pools.pooled_channel import PooledChannel, readdressed

BUFFER = 131_072


class Owner:
    def __init__(self) -> None:
        self.passed: list[Frame] = []
        self.ends: list[ChannelClose | None] = []
        self.proofs: list[bytes] = []

    def pass_on(self, channel: PooledChannel, frame: Frame) -> None:
        self.passed.append(frame)

    def end_channel(self, channel: PooledChannel, close: ChannelClose | None) -> None:
        self.ends.append(close)

    def note_proof(self, request: bytes) -> None:
        self.proofs.append(request)

    def note_progress(self) -> None:
        """Do nothing."""


def channel_of(owner: Owner | None = None, *, confirms: bool = True) -> PooledChannel:
    channel = PooledChannel(1, owner or Owner())
    channel.upstream_number = 300
    channel.is_confirming = confirms
    return channel


def frames_of(body: bytes, size: int | None = None, piece: int = 4000) -> list[Frame]:
    raw = [
        encode_method(1, BasicPublish(0, "e", "k")),
        encode_frame(HEADER, 1, ContentHeader(len(body) if size is None else size).encode()),
        *(encode_frame(BODY, 1, body[start : start + piece]) for start in range(0, len(body), piece)),
    ]
    return [Frame(each) for each in raw]


def publish(channel: PooledChannel, body: bytes = b"body", frame_max: int = 131_072) -> bytes:
    begin, *rest = frames_of(body)
    channel.begin_message(begin)
    for frame in rest:
        assert channel.take_content(frame, BUFFER)
    assert channel.is_complete
    return channel.take_message(frame_max)


def confirm(channel: PooledChannel, method: BasicAck | BasicNack) -> None:
    channel.take(Frame(encode_method(300, method)))


@given(st.binary(max_size=20_000), st.integers(4096, 9000))
def test_a_message_is_sent_on_the_shared_channel_within_its_frame_max(body: bytes, frame_max: int) -> None:
    found = FrameReader(frame_max=frame_max - 8).feed(publish(channel_of(), body, frame_max))
    assert {frame.channel for frame in found} == {300}
    assert found[0].method == BasicPublish(0, "e", "k")
    assert b"".join(frame.payload for frame in found[2:]) == body
    assert all(len(frame.raw) <= frame_max for frame in found)


def test_an_empty_message_is_complete_with_its_header() -> None:
    begin, header = frames_of(b"")
    channel = channel_of()
    channel.begin_message(begin)
    assert not channel.is_complete
    channel.take_content(header, BUFFER)
    assert channel.is_complete


def test_a_message_larger_than_the_buffer_is_not_shared() -> None:
    begin, header = frames_of(b"", BUFFER + 1)
    channel = channel_of()
    channel.begin_message(begin)
    assert not channel.take_content(header, BUFFER)
    assert channel.partial == [begin.raw, header.raw]


def test_a_header_that_cannot_be_decoded_is_not_shared() -> None:
    begin, _ = frames_of(b"")
    channel = channel_of()
    channel.begin_message(begin)
    payload = bytes(2) + bytes(2) + (1).to_bytes(8) + b"\x20\x00" + b"\x00\x00\x00\x09broken"
    assert not channel.take_content(Frame(encode_frame(HEADER, 1, payload)), BUFFER)


def test_a_message_larger_than_it_announces_is_not_shared() -> None:
    begin, header, body = frames_of(b"body", 3)
    channel = channel_of()
    channel.begin_message(begin)
    assert channel.take_content(header, BUFFER)
    assert not channel.take_content(body, BUFFER)


def test_confirms_settle_a_channel() -> None:
    channel = channel_of()
    assert channel.is_settled
    for _ in range(5):
        publish(channel)
    confirm(channel, BasicAck(2, False))
    assert channel.unconfirmed == [1, 3, 4, 5]
    confirm(channel, BasicNack(4, True))
    assert channel.unconfirmed == [5]
    assert not channel.is_settled
    confirm(channel, BasicAck(5, False))
    assert channel.is_settled
    assert channel.confirms == 5


@given(st.data())
def test_confirms_may_come_in_any_order(data: st.DataObject) -> None:
    channel, left = channel_of(), set(range(1, 31))
    for _ in range(30):
        publish(channel)
    while left:
        tag = data.draw(st.sampled_from(sorted(left)))
        multiple = data.draw(st.booleans())
        confirm(channel, BasicAck(tag, multiple))
        left = {each for each in left if each > tag} if multiple else left - {tag}
        assert channel.unconfirmed == sorted(left)
        assert channel.is_settled is not bool(left)


def test_without_confirms_the_answer_to_flow_settles_a_channel() -> None:
    channel = channel_of(confirms=False)
    publish(channel)
    assert channel.needs_flow
    channel.note_request(b"", is_answered=True)
    assert not channel.needs_flow
    assert not channel.is_settled
    channel.take(Frame(encode_method(300, ChannelFlowOk(True))))
    assert channel.is_settled


def test_the_answer_to_a_request_settles_what_was_sent_before_it() -> None:
    owner = Owner()
    channel = channel_of(owner, confirms=False)
    publish(channel)
    channel.note_request(b"declare", is_answered=True)
    assert not channel.needs_flow
    publish(channel)
    assert channel.needs_flow
    channel.take(Frame(encode_method(300, QueueDeclareOk("q", 0, 0))))
    assert owner.proofs == [b"declare"]
    assert not channel.is_settled
    channel.note_request(b"bind", is_answered=True)
    channel.take(Frame(encode_method(300, QueueBindOk())))
    assert channel.is_settled


def test_a_request_without_an_answer_leaves_a_channel_unsettled() -> None:
    channel = channel_of()
    channel.note_request(b"declare", is_answered=False)
    assert channel.needs_flow


def test_answers_that_the_client_has_not_asked_for_are_kept_from_it() -> None:
    owner = Owner()
    channel = channel_of(owner)
    channel.note_select()
    channel.take(Frame(encode_method(300, ConfirmSelectOk())))
    channel.note_request(b"", is_answered=True)
    channel.take(Frame(encode_method(300, ChannelFlowOk(True))))
    assert owner.passed == []
    channel.take(Frame(encode_method(300, ConfirmSelectOk())))
    assert len(owner.passed) == 1


@given(st.binary(max_size=300), st.integers(1, 65_535))
def test_a_readdressed_frame_is_the_same_but_for_its_channel(payload: bytes, channel: int) -> None:
    raw = readdressed(encode_frame(BODY, 7, payload), channel, 0)
    assert raw == encode_frame(BODY, channel, payload)
