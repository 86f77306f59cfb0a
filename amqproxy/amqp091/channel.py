"""One channel of a connection: what has been asked, agreed and delivered on it."""

from __future__ import annotations

from collections import deque
from enum import StrEnum

from amqproxy.amqp091.delivery_tags import DeliveryTags
from amqproxy.amqp091.errors import ChannelError, CommandInvalid, PreconditionFailed, ResourceError, UnexpectedFrame
from amqproxy.amqp091.frames import HEADER, METHOD, Frame, Lane
from amqproxy.amqp091.grammar import CHANNEL_CLOSING, CLIENT, IS_REPLY, REPLIES, SENDERS, SERVER, ChannelState, Peer
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicRecoverAsync,
    BasicRecoverOk,
    BasicReject,
    ChannelFlow,
    ConfirmSelect,
    Method,
    TxCommit,
    TxRollback,
    TxSelect,
)

MAX_AWAITED = 65_536
"""How many requests one side of a channel may have sent before the first of them is answered."""


class Mode(StrEnum):
    """What a client may expect of its publishes; once chosen, a channel keeps it."""

    NORMAL = "normal"
    CONFIRM = "confirm"
    TX = "tx"


class Channel:
    """The state of one channel, as both peers must see it. Sections 1.5 to 1.9.

    `consumers` maps each consumer tag to whether it is `no_ack`. `unacked` are the deliveries that
    the client has yet to settle, `unconfirmed` the publishes that the server has; both stay empty
    where the connection does not track deliveries. `is_flowing` says of each peer whether it may
    send content. `awaited` are the requests of each peer that the other has not answered.
    """

    def __init__(self, number: int, lanes: dict[Peer, Lane], *, tracks_deliveries: bool) -> None:
        self.number = number
        self.state: ChannelState | None = ChannelState.OPENING
        self.lanes = lanes
        self.mode = Mode.NORMAL
        self.consumers: dict[str, bool] = {}
        self.unacked = DeliveryTags()
        self.unconfirmed = DeliveryTags()
        self.is_flowing = {CLIENT: True, SERVER: True}
        self.awaited: dict[Peer, deque[Method]] = {CLIENT: deque(), SERVER: deque()}
        self._tracks_deliveries = tracks_deliveries
        self._rolled_back_if_asked: list[tuple[int, str]] = []

    def may_send(self, peer: Peer) -> frozenset[str]:
        """What `peer` may send next: names of methods, or "header" or "body" within content."""
        if self.state is None:
            return frozenset()
        closing = {name for sender, name in CHANNEL_CLOSING[self.state] if sender is peer}
        if not self.takes_frames_of(peer):
            return frozenset(closing)
        lane = self.lanes[peer]
        if lane.expects != METHOD:
            return frozenset({"header" if lane.expects == HEADER else "body"})
        owed = self.awaited[peer.other]
        replies = REPLIES[owed[0].name] if owed else ()
        others = {
            name
            for name, senders in SENDERS.items()
            if peer in senders and name not in IS_REPLY and not name.startswith(("connection.", "channel.open"))
        }
        others -= {"channel.close", "channel.close-ok"}
        if peer is SERVER and self.mode is not Mode.CONFIRM:
            others -= {"basic.ack", "basic.nack"}
        return frozenset(closing | others | set(replies))

    def takes_frames_of(self, peer: Peer) -> bool:
        """Does what `peer` sends still count? Not once either has closed; then only close-ok does."""
        return self.state in (ChannelState.OPENING, ChannelState.OPEN)

    def receive(self, sender: Peer, frame: Frame) -> bool:
        """Take a frame; False when it is to be discarded because the channel is closing.

        `ProtocolError` when it may not come now.
        """
        if not frame.is_in_order:
            self.lanes[sender].advance(frame)
        if frame.kind != METHOD:
            return self.takes_frames_of(sender)
        method: Method = frame.method
        name = method.name
        if self._is_moved_by(sender, name):
            return True
        if not self.takes_frames_of(sender):
            return False
        if name == "channel.open":
            raise ChannelError("second 'channel.open' seen")
        if sender not in SENDERS[name] or method.class_id == 10 or name in ("channel.close-ok", "channel.open-ok"):
            raise CommandInvalid(f"{name} may not come from the {sender} here")
        request = self._request_of(sender, name)
        self._apply(sender, method, request)
        if name in REPLIES and not getattr(method, "no_wait", False):
            awaited = self.awaited[sender]
            if len(awaited) >= MAX_AWAITED:
                raise ResourceError(f"more than {MAX_AWAITED} requests wait for an answer on channel {self.number}")
            awaited.append(method)
        return True

    def _is_moved_by(self, sender: Peer, name: str) -> bool:
        assert self.state is not None
        moves = CHANNEL_CLOSING[self.state]
        if (sender, name) not in moves:
            return False
        if name == "channel.close" and self.takes_frames_of(sender) and self.lanes[sender].was_cut:
            raise UnexpectedFrame("channel.close in the middle of a content", class_id=20, method_id=40)
        self.state = moves[sender, name]
        return True

    def _request_of(self, sender: Peer, name: str) -> Method | None:
        """The request that the method `name` answers, if it is an answer."""
        if name not in IS_REPLY:
            return None
        awaited = self.awaited[sender.other]
        if not awaited or name not in REPLIES[awaited[0].name]:
            due = f"an answer to {awaited[0].name}" if awaited else "nothing"
            raise CommandInvalid(f"{name} from the {sender}, where {due} was due")
        return awaited.popleft()

    def _apply(self, sender: Peer, method: Method, request: Method | None) -> None:
        """Note what `method` changes."""
        match method:
            case BasicPublish():
                if self._tracks_deliveries and self.mode is Mode.CONFIRM:
                    self._issue(self.unconfirmed, self.unconfirmed.last + 1)
            case BasicDeliver():
                if self._tracks_deliveries:
                    is_settled = self.consumers.get(method.consumer_tag, False)
                    self._issue(self.unacked, method.delivery_tag, method.consumer_tag, is_settled=is_settled)
            case BasicGetOk():
                if self._tracks_deliveries:
                    is_settled = isinstance(request, BasicGet) and request.no_ack
                    self._issue(self.unacked, method.delivery_tag, is_settled=is_settled)
            case BasicAck() | BasicNack():
                self._settle(sender, method.delivery_tag, multiple=method.multiple)
            case BasicReject():
                self._settle(sender, method.delivery_tag, multiple=False)
            case BasicRecoverAsync() | BasicRecoverOk():
                self.unacked.clear()
            case BasicConsumeOk():
                assert isinstance(request, BasicConsume)
                self.consumers[method.consumer_tag] = request.no_ack
            case BasicConsume(no_wait=True):
                self.consumers[method.consumer_tag] = method.no_ack
            case BasicCancelOk():
                self.consumers.pop(method.consumer_tag, None)
            case BasicCancel():
                if method.no_wait or sender is SERVER:
                    self.consumers.pop(method.consumer_tag, None)
            case ChannelFlow():
                self.is_flowing[sender.other] = method.active
            case ConfirmSelect():
                self._choose(Mode.CONFIRM, Mode.TX)
            case TxSelect():
                self._choose(Mode.TX, Mode.CONFIRM)
            case TxCommit() | TxRollback():
                if self.mode is not Mode.TX:
                    raise PreconditionFailed("channel is not transactional")
                if isinstance(method, TxRollback):
                    self.unacked.restore(self._rolled_back_if_asked)
                self._rolled_back_if_asked = []
            case _:
                pass

    def _choose(self, mode: Mode, rival: Mode) -> None:
        if self.mode is rival:
            raise PreconditionFailed(f"cannot switch from {rival} to {mode} mode")
        self.mode = mode

    def _issue(self, tags: DeliveryTags, tag: int, what: str = "", *, is_settled: bool = False) -> None:
        try:
            tags.issue(tag, what, is_settled=is_settled)
        except ValueError as error:
            raise CommandInvalid(str(error)) from None
        except OverflowError as error:
            raise ResourceError(str(error)) from None

    def _settle(self, sender: Peer, tag: int, *, multiple: bool) -> None:
        if sender is SERVER and self.mode is not Mode.CONFIRM:
            raise CommandInvalid("the server confirms where nothing was to be confirmed")
        if not self._tracks_deliveries:
            return
        tags = self.unacked if sender is CLIENT else self.unconfirmed
        try:
            settled = tags.settle(tag, multiple=multiple)
        except KeyError:
            raise PreconditionFailed(f"unknown delivery tag {tag}") from None
        if sender is CLIENT and self.mode is Mode.TX:
            self._rolled_back_if_asked += settled
