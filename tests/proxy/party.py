"""A peer that sends whatever it may, as drawn."""

from __future__ import annotations

from hypothesis import strategies as st

from amqproxy.amqp091.frame import BODY, HEADER, encode_frame, encode_method
from amqproxy.amqp091.methods import (
    BY_NAME,
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicNack,
    BasicPublish,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConfirmSelect,
    Method,
    QueueDeclare,
)
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.amqp091.transitions import CLIENT, REPLIES, ChannelState, Peer
from tests.proxy.interceptor_transcript import Water

REPLY = {request: replies[0] for request, replies in REPLIES.items()} | {"basic.get": "basic.get-ok"}


class Party:
    """One peer, which says what it may, as far as it knows: one watcher is its view of the connection."""

    def __init__(self, peer: Peer, water: Water, data: st.DataObject) -> None:
        self.peer = peer
        self.view = water.watchers[peer]
        self.data = data
        self.unsaid: dict[int, list[bytes]] = {}
        self.consumers = 0

    def next_words(self) -> bytes | None:
        """A frame that it may send now; None when it has nothing to say."""
        number = self.data.draw(st.integers(1, 2), label=f"the {self.peer} on channel")
        channel = self.view.channels.get(number)
        if channel is None:
            self.unsaid.pop(number, None)
            return encode_method(number, ChannelOpen()) if self.peer is CLIENT else None
        closed_by_other = ChannelState.CLOSED_BY_SERVER if self.peer is CLIENT else ChannelState.CLOSED_BY_CLIENT
        if channel.state in (closed_by_other, ChannelState.CLOSED_BY_BOTH):
            if self.unsaid.get(number):
                return self.unsaid[number].pop(0)  # a content that was under way is said to its end
            return encode_method(number, ChannelCloseOk())
        if channel.state not in (ChannelState.OPEN, ChannelState.OPENING):
            return None
        if self.unsaid.get(number):
            return self.unsaid[number].pop(0)
        method = self._client_method(channel) if self.peer is CLIENT else self._server_method(channel)
        if method is None:
            return None
        frames = [encode_method(number, method)]
        if method.carries_content:
            body = self.data.draw(st.sampled_from([b"", b"a", b"abcdef"]))
            frames.append(encode_frame(HEADER, number, ContentHeader(len(body)).encode()))
            half = len(body) // 2
            frames += [encode_frame(BODY, number, part) for part in (body[:half], body[half:]) if part]
        self.unsaid[number] = frames[1:]
        return frames[0]

    def _client_method(self, channel) -> Method | None:
        if channel.state is not ChannelState.OPEN:
            return None
        names = ["publish"] * 4 + ["consume", "get", "declare", "select", "close"]
        tags = list(channel.unacked._open)
        if tags:
            names += ["ack", "ack", "ack", "nack", "reject"]
        match self.data.draw(st.sampled_from(names)):
            case "publish":
                return BasicPublish(routing_key="k")
            case "consume":
                return BasicConsume(
                    queue="q", consumer_tag=f"c{len(channel.consumers)}x{self.data.draw(st.integers(0, 99))}"
                )
            case "get":
                return BasicGet(queue="q")
            case "declare":
                return QueueDeclare(queue="q")
            case "select":
                return ConfirmSelect()
            case "close":
                return ChannelClose(200, "bye", 0, 0)
            case "ack":
                return BasicAck(self.data.draw(st.sampled_from([0, *tags])) or tags[-1], self.data.draw(st.booleans()))
            case "nack":
                return BasicNack(self.data.draw(st.sampled_from(tags)), True, False)
            case _:
                return BasicReject(self.data.draw(st.sampled_from(tags)), True)

    def _server_method(self, channel) -> Method | None:
        if channel.state is ChannelState.OPENING:
            return BY_NAME["channel.open-ok"]()
        names = ["close"]
        awaited = [name for name, waiting in channel.awaited[CLIENT].items() if waiting]
        names += [*awaited] * 3
        if channel.consumers:
            names += ["deliver"] * 4
        unconfirmed = list(channel.unconfirmed._open)
        if unconfirmed:
            names += ["ack"] * 3 + ["nack"]
        match self.data.draw(st.sampled_from(names)):
            case "close":
                return ChannelClose(404, "gone", 0, 0) if self.data.draw(st.integers(0, 3)) == 0 else None
            case "deliver":
                return BasicDeliver(self.data.draw(st.sampled_from(list(channel.consumers))), channel.unacked.last + 1)
            case "ack":
                return BasicAck(self.data.draw(st.sampled_from(unconfirmed)), self.data.draw(st.booleans()))
            case "nack":
                return BasicNack(self.data.draw(st.sampled_from(unconfirmed)), self.data.draw(st.booleans()), False)
            case name:
                reply = BY_NAME[REPLY[name]]
                tag = channel.awaited[CLIENT][name][0].consumer_tag
                if name == "basic.get":
                    return reply(delivery_tag=channel.unacked.last + 1)
                return reply(consumer_tag=tag) if "consumer_tag" in reply.__struct_fields__ else reply()
