"""State of one channel of a connection: requests, modes, consumers and closing."""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from typing import NamedTuple

from amqproxy.amqp091.errors import ChannelError, CommandInvalid, ErrorKind, PreconditionFailed, ResourceError
from amqproxy.amqp091.frame import METHOD, Frame
from amqproxy.amqp091.frame_reader import ContentState
from amqproxy.amqp091.methods import (
    BY_INDEX,
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGetOk,
    BasicNack,
    ChannelFlow,
    ConfirmSelect,
    Method,
    TxCommit,
    TxRollback,
    TxSelect,
)
from amqproxy.amqp091.transitions import (
    ANSWERS,
    CHANNEL_CLOSING,
    CLIENT,
    REPLIES,
    SENDERS,
    SERVER,
    ChannelState,
    Peer,
)

MAX_AWAITED = 65_536
"""Maximum number of unanswered requests of one kind from one peer of a channel."""

MAX_CONSUMERS = 65_536
"""Maximum number of consumers on one channel."""


class ChannelMode(StrEnum):
    """Publish mode of a channel, which cannot be changed once set."""

    NORMAL = "normal"
    CONFIRM = "confirm"
    TX = "tx"


class PendingRequest(NamedTuple):
    """An unanswered request, with the arguments that its reply needs."""

    consumer_tag: str
    no_ack: bool


class Channel:
    """State of one channel, as both peers must see it (sections 1.5 to 1.9).

    `consumers` maps each consumer tag to whether it is `no_ack`; "" stands for no-wait consumers whose tag the server
    generates and does not send. `is_flowing` is whether each peer may send content. `awaited` are the unanswered
    requests of each peer, by name. `got_without_ack` is whether the message of the last basic.get needs no
    acknowledgement. `confirms_from` is the number of publishes before confirm.select, `None` without one.
    """

    __slots__ = (
        "awaited",
        "confirms_from",
        "consumers",
        "content_states",
        "got_without_ack",
        "is_flowing",
        "mode",
        "number",
        "state",
    )

    def __init__(self, number: int, content_states: dict[Peer, ContentState]) -> None:
        self.number = number
        self.state: ChannelState | None = ChannelState.OPENING
        self.content_states = content_states
        self.mode = ChannelMode.NORMAL
        self.consumers: dict[str, bool] = {}
        self.is_flowing = {CLIENT: True, SERVER: True}
        self.awaited: dict[Peer, dict[str, deque[PendingRequest]]] = {CLIENT: {}, SERVER: {}}
        self.got_without_ack = False
        self.confirms_from: int | None = None

    @property
    def takes_frames(self) -> bool:
        """Whether frames still count: once either peer has closed, only closing methods do."""
        return self.state in (ChannelState.OPENING, ChannelState.OPEN)

    def receive(self, sender: Peer, frame: Frame) -> bool:
        """Process a frame; return `False` if it must be discarded because the channel is closing.

        Raise `ProtocolError` if it may not be sent now.
        """
        if self.takes_frames and not frame.is_in_order:
            self.content_states[sender].advance(frame)
        if frame.kind != METHOD:
            return self.takes_frames
        name = BY_INDEX[frame.index].name
        if name == "channel.open":  # RabbitMQ accepts it even if the channel is closed and its close-ok is outstanding
            raise ChannelError("second 'channel.open' seen", kind=ErrorKind.OPENED_TWICE)
        assert self.state is not None
        moves = CHANNEL_CLOSING[self.state]
        if not self.takes_frames and (sender, name) not in moves:
            return False
        method: Method = frame.method
        if (sender, name) in moves:
            self.state = moves[sender, name]
            return True
        if method.carries_content and sender not in SENDERS[name] and self.content_states[sender].is_lenient:
            return True  # RabbitMQ 3.10 reads its content first, and then answers 503
        if sender not in SENDERS[name] or method.class_id == 10 or name in ("channel.close-ok", "channel.open-ok"):
            raise CommandInvalid(f"{name} may not come from the {sender} here")
        self._apply(sender, method, self._request_of(sender, method))
        if isinstance(method, ConfirmSelect) and self.confirms_from is None:
            self.confirms_from = frame.ordinal
        if name in REPLIES and not getattr(method, "no_wait", False):
            self._await_reply(sender, method)
        return True

    def _await_reply(self, sender: Peer, request: Method) -> None:
        awaited = self.awaited[sender].setdefault(request.name, deque())
        if len(awaited) >= MAX_AWAITED:
            raise ResourceError(f"more than {MAX_AWAITED} times {request.name} wait for an answer")
        awaited.append(PendingRequest(getattr(request, "consumer_tag", ""), getattr(request, "no_ack", False)))

    def _request_of(self, sender: Peer, reply: Method) -> PendingRequest | None:
        """Return the oldest request that `reply` can answer, if it is a reply.

        RabbitMQ answers out of order: a queue sends consume-ok after the channel has answered requests that the client
        sent after its consume.
        """
        if reply.name not in ANSWERS:
            return None
        name = ANSWERS[reply.name]
        awaited = self.awaited[sender.other].get(name)
        if not awaited:
            raise CommandInvalid(f"{reply.name} from the {sender}, where no {name} waits for an answer")
        request = awaited[0]
        if isinstance(reply, BasicConsumeOk) and request.consumer_tag != reply.consumer_tag:
            request = next((asked for asked in awaited if asked.consumer_tag == reply.consumer_tag), request)
        awaited.remove(request)
        if not awaited:
            del self.awaited[sender.other][name]  # an empty deque takes 760 bytes
        return request

    def _apply(self, sender: Peer, method: Method, request: PendingRequest | None) -> None:
        """Apply the state changes of `method`."""
        match method:
            case BasicGetOk():
                assert request is not None
                self.got_without_ack = request.no_ack
            case BasicAck() | BasicNack():
                if sender is SERVER and self.mode is not ChannelMode.CONFIRM:
                    raise CommandInvalid("the server confirms where nothing was to be confirmed")
            case BasicConsumeOk():
                assert request is not None
                self._add_consumer(method.consumer_tag, no_ack=request.no_ack)
            case BasicConsume(no_wait=True):
                self._add_consumer(method.consumer_tag, no_ack=method.no_ack)
            case BasicCancelOk():
                self.consumers.pop(method.consumer_tag, None)
            case BasicCancel():
                if method.no_wait or sender is SERVER:
                    self.consumers.pop(method.consumer_tag, None)
            case ChannelFlow():
                self.is_flowing[sender.other] = method.active
            case ConfirmSelect():
                self._choose(ChannelMode.CONFIRM, ChannelMode.TX)
            case TxSelect():
                self._choose(ChannelMode.TX, ChannelMode.CONFIRM)
            case TxCommit() | TxRollback():
                if self.mode is not ChannelMode.TX:
                    raise PreconditionFailed("channel is not transactional")
            case _:
                pass

    def _add_consumer(self, tag: str, *, no_ack: bool) -> None:
        if len(self.consumers) >= MAX_CONSUMERS:
            raise ResourceError(f"more than {MAX_CONSUMERS} consumers on channel {self.number}")
        self.consumers[tag] = no_ack

    def _choose(self, mode: ChannelMode, rival: ChannelMode) -> None:
        if self.mode is rival:
            raise PreconditionFailed(f"cannot switch from {rival} to {mode} mode")
        self.mode = mode
