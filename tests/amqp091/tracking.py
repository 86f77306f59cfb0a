"""A connection that also knows every tag: which deliveries and publishes are open, and what each peer may send next.

The proxy and the broker need neither. Tests check with it that what they send is what a strict peer would accept.
"""

from __future__ import annotations

from amqproxy.amqp091.channel import Channel, ChannelMode, PendingRequest
from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.errors import CommandInvalid, PreconditionFailed, ResourceError
from amqproxy.amqp091.frame import HEADER, METHOD
from amqproxy.amqp091.frame_reader import ContentState, FrameReader
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicDeliver,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicRecoverAsync,
    BasicRecoverOk,
    BasicReject,
    Method,
    TxCommit,
    TxRollback,
)
from amqproxy.amqp091.transitions import (
    ANSWERS,
    CHANNEL_CLOSING,
    CLIENT,
    CONNECTION_CLOSING,
    HANDSHAKE,
    HAS_CHANNELS,
    MAY_CLOSE,
    REPLIES,
    SENDERS,
    SERVER,
    Peer,
)
from tests.amqp091.delivery_tags import MAX_OUTSTANDING, DeliveryTags


def is_mid_content(reader: FrameReader) -> bool:
    """Whether any channel has an incomplete content."""
    return any(content_state.expects != METHOD for content_state in reader.content_states.values())


class TrackingConnection(Connection):
    """A connection whose channels are `TrackingChannel`s."""

    channels: dict[int, TrackingChannel]  # type: ignore[assignment]

    def may_send(self, peer: Peer, channel: int = 0) -> frozenset[str]:
        """Return what `peer` may send next on `channel`: method names, "protocol-header", "header", "body".

        Heartbeats, which may always be sent on channel 0 once both have agreed, are not listed.
        """
        if channel:
            if self.state not in HAS_CHANNELS:
                return frozenset()
            if channel in self.channels:
                return self.channels[channel].may_send(peer)
            return frozenset({"channel.open"}) if peer is CLIENT else frozenset()
        moves = HANDSHAKE.get(self.state) or CONNECTION_CLOSING[self.state]
        names = {name for sender, name in moves if sender is peer}
        if self.state in MAY_CLOSE:
            names.add("connection.close")
        return frozenset(names)

    @property
    def is_mid_content(self) -> bool:
        """Whether either side has sent an incomplete content."""
        return any(map(is_mid_content, self.readers.values()))

    def _new_channel(self, number: int, content_states: dict[Peer, ContentState]) -> TrackingChannel:
        return TrackingChannel(number, content_states)


class TrackingChannel(Channel):
    """A channel that knows which deliveries are `unacked` and which publishes `unconfirmed`. Section 1.8.3 and 1.9."""

    def __init__(self, number: int, content_states: dict[Peer, ContentState]) -> None:
        super().__init__(number, content_states)
        self.unacked = DeliveryTags()
        self.unconfirmed = DeliveryTags()
        self._rolled_back_if_asked: list[tuple[int, str]] = []

    def may_send(self, peer: Peer) -> frozenset[str]:
        """Return what `peer` may send next: names of methods, or "header" or "body" within content."""
        if self.state is None:
            return frozenset()
        closing = {name for sender, name in CHANNEL_CLOSING[self.state] if sender is peer}
        if not self.takes_frames:
            return frozenset(closing)
        content_state = self.content_states[peer]
        if content_state.expects != METHOD:
            return frozenset({"header" if content_state.expects == HEADER else "body"})
        replies = {reply for name, waiting in self.awaited[peer.other].items() if waiting for reply in REPLIES[name]}
        others = {
            name
            for name, senders in SENDERS.items()
            if peer in senders and name not in ANSWERS and not name.startswith(("connection.", "channel.open"))
        }
        others -= {"channel.close", "channel.close-ok"}
        if peer is SERVER and self.mode is not ChannelMode.CONFIRM:
            others -= {"basic.ack", "basic.nack"}
        return frozenset(closing | others | replies)

    def _apply(self, sender: Peer, method: Method, request: PendingRequest | None) -> None:
        super()._apply(sender, method, request)
        match method:
            case BasicPublish():
                if self.mode is ChannelMode.CONFIRM:
                    self._issue(self.unconfirmed, self.unconfirmed.last + 1)
            case BasicDeliver():
                # A tag of a no_ack consumer need not be new: direct replies repeat theirs.
                no_ack = self.consumers.get(method.consumer_tag, self.consumers.get("", False))
                if not no_ack:
                    self._issue(self.unacked, method.delivery_tag, method.consumer_tag)
            case BasicGetOk():
                if not self.got_without_ack:
                    self._issue(self.unacked, method.delivery_tag)
            case BasicAck() | BasicNack():
                self._settle(sender, method.delivery_tag, multiple=method.multiple)
            case BasicReject():
                self._settle(sender, method.delivery_tag, multiple=False)
            case BasicRecoverAsync() | BasicRecoverOk():
                self.unacked.clear()
            case TxCommit() | TxRollback():
                if isinstance(method, TxRollback):
                    self.unacked.restore(self._rolled_back_if_asked)
                self._rolled_back_if_asked = []
            case _:
                pass

    def _issue(self, tags: DeliveryTags, tag: int, what: str = "") -> None:
        try:
            tags.issue(tag, what)
        except ValueError as error:
            raise CommandInvalid(str(error)) from None
        except OverflowError as error:
            raise ResourceError(str(error)) from None

    def _settle(self, sender: Peer, tag: int, *, multiple: bool) -> None:
        tags = self.unacked if sender is CLIENT else self.unconfirmed
        try:
            settled = tags.settle(tag, multiple=multiple)
        except KeyError:
            raise PreconditionFailed(f"unknown delivery tag {tag}") from None
        if sender is CLIENT and self.mode is ChannelMode.TX:
            if len(self._rolled_back_if_asked) >= MAX_OUTSTANDING:
                raise ResourceError(f"more than {MAX_OUTSTANDING} deliveries settled in one transaction")
            self._rolled_back_if_asked += settled
