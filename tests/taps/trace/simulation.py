"""A client and a broker that run random programs, and what passes between them, frame by frame.

The broker handles what the client sends in order, but later: so requests are pipelined, and closes cross. As in
RabbitMQ, deliveries and the replies to basic.consume and basic.cancel come from a mailbox, and other replies may
overtake them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from amqproxy.amqp091.frame import BODY, HEADER, Frame, encode_frame, encode_method
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverOk,
    BasicReject,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ConnectionCloseOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.taps.trace.consumers import REPLY_TO
from tests.taps.trace.oracle import Life, Publish, Request

CHANNELS = (1, 2, 3)
MISSING = "missing"
"""A queue that the broker does not have."""


class Step(NamedTuple):
    """One step of a program: which, on which channel, and numbers that it makes of what it will."""

    name: str
    channel: int
    a: int
    b: int
    tick: bool


class Passed(NamedTuple):
    """A frame, and when it was seen."""

    sender: Peer
    ts_ns: int
    frame: Frame


@dataclass(eq=False)
class Consumer:
    tag: str
    queue: str | None
    no_ack: bool
    is_ambiguous: bool


@dataclass(eq=False)
class Sent:
    """Something that the client has sent, which the broker has not handled."""

    method: Method
    request: Request | None = None
    publish: Publish | None = None


@dataclass(eq=False)
class SimulatedChannel:
    """One life of a channel: what the model says of it, and what client and broker have of it."""

    number: int
    life: Life
    unanswered: set[Peer] = field(default_factory=set)
    # the client
    consumer_tags: set[str] = field(default_factory=set)
    tag_uses: Counter[str] = field(default_factory=Counter)
    loose_tags: set[str] = field(default_factory=set)
    tag_kinds: dict[str, set[bool]] = field(default_factory=dict)
    flow: list[Request] = field(default_factory=list)
    # the broker
    inbox: deque[Sent] = field(default_factory=deque)
    mailbox: deque[Callable[[], None]] = field(default_factory=deque)
    mode: str = "normal"
    is_open: bool = False
    is_reused: bool = False
    is_deaf: bool = False
    consumers: dict[str, Consumer] = field(default_factory=dict)
    last_queue: str | None = None
    is_queue_ambiguous: bool = False
    tag: int = 0
    unacked: set[int] = field(default_factory=set)
    acked: list[int] = field(default_factory=list)
    pending: list[Publish] = field(default_factory=list)
    published: list[Publish] = field(default_factory=list)
    in_transaction: list[Publish] = field(default_factory=list)

    def is_closed_by_broker(self) -> bool:
        return self.is_deaf or any(each.by is SERVER for each in self.life.closes)


class Simulation:
    """Runs a program; `passed` is what an observer sees of it, `lives` what is true."""

    def __init__(self) -> None:
        self.ts_ns = 1_000
        self.passed: list[Passed] = []
        self.lives: list[Life] = []
        self.connection_cause: Method | None = None
        self._channels: dict[int, SimulatedChannel] = {}
        self._previous: dict[int, SimulatedChannel] = {}
        self._unsent: dict[tuple[Peer, int], tuple[list[Frame], Callable[[], None]]] = {}
        self._bodies = 0
        self._names = 0
        self._closing: Peer | None = None
        self._is_over = False

    def run(self, program: list[Step]) -> None:
        for step in program:
            if self._is_over:
                break
            if step.tick:
                self.ts_ns += 1_000
            getattr(self, f"_{step.name}")(step.channel, step.a, step.b)

    def finish(self) -> None:
        """The connection is over."""
        self.ts_ns += 1_000
        self._end_lives()

    def _end_lives(self) -> None:
        for channel in (*self._previous.values(), *self._channels.values()):
            channel.life.end(self.ts_ns)

    # --- frames

    def _send(self, sender: Peer, number: int, method: Method) -> None:
        self._flush(sender, number)
        self.passed.append(Passed(sender, self.ts_ns, Frame(encode_method(number, method))))

    def _send_content(
        self, sender: Peer, number: int, method: Method, body: bytes, parts: int, then: Callable[[], None]
    ) -> None:
        """Send a content in body frames of any size, some of them empty; the last ones may come later."""
        self._send(sender, number, method)
        frames = [Frame(encode_frame(HEADER, number, ContentHeader(len(body)).encode()))]
        cuts = sorted((parts * place) % (len(body) + 1) for place in range(parts % 4))
        for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True):
            if end < len(body) or end > start:
                frames.append(Frame(encode_frame(BODY, number, body[start:end])))
        self._unsent[sender, number] = frames, then
        if parts % 3:
            self._flush(sender, number)

    def _flush(self, sender: Peer, number: int) -> None:
        frames, then = self._unsent.pop((sender, number), ([], lambda: None))
        self.passed += [Passed(sender, self.ts_ns, each) for each in frames]
        then()

    def _body(self, size: int) -> bytes:
        self._bodies += 1
        return b"%08d" % self._bodies + b"." * size

    # --- steps of the client

    def _usable(self, number: int) -> SimulatedChannel | None:
        """The channel, if the client may still send on it, be it in vain."""
        channel = self._channels.get(number)
        if channel is None or CLIENT in channel.unanswered or self._closing is CLIENT:
            return None
        self._flush(CLIENT, number)
        return channel

    def _client(self, channel: SimulatedChannel, method: Method) -> None:
        self._send(CLIENT, channel.number, method)
        channel.inbox.append(Sent(method))

    def _ask(self, number: int, method: Method) -> SimulatedChannel | None:
        channel = self._usable(number)
        if channel is not None:
            self._send(CLIENT, number, method)
            request = None
            if not getattr(method, "no_wait", False):
                request = channel.life.request(CLIENT, method, self.ts_ns)
            channel.inbox.append(Sent(method, request))
        return channel

    def _open(self, number: int, a: int, b: int) -> None:
        channel = self._channels.get(number)
        if self._closing is not None or number in self._previous:
            return
        if channel is not None:
            if channel.unanswered != {CLIENT} or a % 2:
                return
            channel.is_reused = True  # the client does not wait for close-ok
            self._previous[number] = channel
        life = Life(number)
        self.lives.append(life)
        self._channels[number] = SimulatedChannel(number, life)
        self._send(CLIENT, number, ChannelOpen())
        self._channels[number].inbox.append(Sent(ChannelOpen()))

    def _publish(self, number: int, a: int, b: int) -> None:
        channel = self._usable(number)
        if channel is None:
            return
        method = BasicPublish(exchange=["e", MISSING][a % 64 == 63], routing_key="kl"[a % 2], mandatory=a % 3 == 0)
        body = self._body(a % 3)

        def then() -> None:
            publish = channel.life.publish(method, body, self.ts_ns, may_be_returned=method.mandatory)
            channel.inbox.append(Sent(method, publish=publish))

        self._send_content(CLIENT, number, method, body, b, then)

    def _settle(self, number: int, a: int, b: int) -> None:
        channel = self._usable(number)
        if channel is None:
            return
        still = [each.tag for each in channel.life.deliveries if each.is_open]
        if not still and a % 16:
            return
        tag = still[a % len(still)] if a % 16 else a % (channel.tag + 2)
        multiple, requeue = b % 2 == 0, b % 3 == 0
        if tag == 0 and b % 5:
            return
        method: BasicAck | BasicNack | BasicReject = BasicAck(tag, multiple)
        if b % 4 == 1:
            method = BasicNack(tag, multiple, requeue)
        elif b % 4 == 3:
            method = BasicReject(tag, requeue)
        channel.life.settle(method, self.ts_ns)
        self._client(channel, method)

    def _declare(self, number: int, a: int, b: int) -> None:
        self._ask(number, QueueDeclare(queue=["", "q", "r"][a % 3], passive=b % 4 == 3, no_wait=b % 5 == 4))

    def _declare_missing(self, number: int, a: int, b: int) -> None:
        if not a % 8:
            self._ask(number, QueueDeclare(queue=MISSING, passive=True))

    def _qos(self, number: int, a: int, b: int) -> None:
        self._ask(number, BasicQos(prefetch_count=a))

    def _consume(self, number: int, a: int, b: int) -> None:
        channel = self._usable(number)
        if channel is None:
            return
        tag = ["", "c", "d"][a % 3]
        no_wait = b % 3 == 0
        if tag in channel.consumer_tags and tag:
            return
        queue = ["", "q", "r", REPLY_TO][b % 4]
        no_ack = a % 2 == 0 or queue == REPLY_TO
        channel.tag_uses[tag] += 1
        if no_wait or queue == REPLY_TO:
            channel.loose_tags.add(tag)
        channel.tag_kinds.setdefault(tag, set()).add(queue == REPLY_TO)
        channel.life.has_unclear_consumers |= len(channel.tag_kinds[tag]) > 1
        channel.consumer_tags.add(tag)
        self._ask(
            number,
            BasicConsume(queue=queue, consumer_tag=tag, no_ack=no_ack, no_wait=no_wait),
        )

    def _cancel(self, number: int, a: int, b: int) -> None:
        channel = self._usable(number)
        tag = ["x", "c", "d"][a % 3]
        if channel is not None and (tag in channel.consumer_tags or a % 7 == 0):
            channel.consumer_tags.discard(tag)
            if b % 3 == 0:
                channel.loose_tags.add(tag)
            self._ask(number, BasicCancel(tag, no_wait=b % 3 == 0))

    def _get(self, number: int, a: int, b: int) -> None:
        self._ask(number, BasicGet(queue=["", "q"][a % 2], no_ack=b % 2 == 0))

    def _recover(self, number: int, a: int, b: int) -> None:
        channel = self._ask(number, BasicRecover(requeue=a % 2 == 0))
        if channel is not None:
            channel.life.recover()

    def _select(self, number: int, a: int, b: int) -> None:
        channel = self._usable(number)
        if channel is not None and (channel.life.mode == "normal" or a % 16 == 15):
            self._ask(number, ConfirmSelect(no_wait=b % 2 == 0) if a % 2 else TxSelect())
            channel.life.select("confirm" if a % 2 else "tx")

    def _end_transaction(self, number: int, a: int, b: int) -> None:
        channel = self._channels.get(number)
        if channel is not None and (channel.life.mode == "tx" or a % 16 == 15):
            channel = self._ask(number, TxCommit() if a % 2 else TxRollback())
            if channel is not None:
                channel.life.end_transaction(is_commit=bool(a % 2))

    def _answer_flow(self, number: int, a: int, b: int) -> None:
        channel = self._usable(number)
        if channel is not None and channel.flow and not channel.life.is_unread:
            reply = ChannelFlowOk(False)
            self._client(channel, reply)
            channel.life.answer(channel.flow.pop(0), reply, self.ts_ns)

    def _close(self, number: int, a: int, b: int) -> None:
        channel = self._usable(number)
        if channel is not None and a % 3 == 0:
            channel.unanswered.add(CLIENT)
            channel.life.close(CLIENT, self.ts_ns)
            self._client(channel, ChannelClose())

    def _close_ok(self, number: int, a: int, b: int) -> None:
        channel = self._channels.get(number)
        if channel is not None and SERVER in channel.unanswered and self._closing is not CLIENT:
            self._client(channel, ChannelCloseOk())
            self._answered(channel, SERVER)

    def _answered(self, channel: SimulatedChannel, closer: Peer) -> None:
        channel.unanswered.discard(closer)
        if not channel.unanswered:
            channel.life.end(self.ts_ns)
            channels = self._previous if self._previous.get(channel.number) is channel else self._channels
            del channels[channel.number]

    def _close_connection(self, number: int, a: int, b: int) -> None:
        if a % 8 or self._closing is not None:
            return
        self._close_connection_by(CLIENT if b % 2 else SERVER, ConnectionClose(320, "CONNECTION_FORCED"))

    def _close_connection_by(self, sender: Peer, close: ConnectionClose, cause: Method | None = None) -> None:
        if self._closing is not None:
            return
        for number in CHANNELS:
            self._flush(sender, number)
        self._closing = sender
        self.connection_cause = cause
        self._send(sender, 0, close)
        for channel in (*self._previous.values(), *self._channels.values()):
            channel.life.is_unread = True

    def _close_connection_ok(self, number: int, a: int, b: int) -> None:
        if self._closing is not None:
            self._send(self._closing.other, 0, ConnectionCloseOk())
            self._end_lives()
            self._is_over = True

    # --- steps of the broker

    def _handling(self, number: int) -> SimulatedChannel | None:
        """The channel that the broker is at, which may not be the client's any more."""
        if self._closing is SERVER:
            return None
        return self._previous.get(number) or self._channels.get(number)

    def _sending(self, number: int) -> SimulatedChannel | None:
        """The same, if the broker may send something."""
        channel = self._handling(number)
        if channel is None or not channel.is_open or channel.is_closed_by_broker():
            return None
        return channel

    def _handle(self, number: int, a: int, b: int) -> None:
        """The broker handles some of what it has got."""
        for _ in range(a % 6 + 1):
            channel = self._handling(number)
            if channel is None or not channel.inbox:
                break
            _Broker(self, channel).handle(channel.inbox.popleft(), b)

    def _deliver(self, number: int, a: int, b: int) -> None:
        channel = self._sending(number)
        if channel is None or not channel.consumers:
            return
        consumer = [*channel.consumers.values()][a % len(channel.consumers)]
        broker = _Broker(self, channel)
        channel.mailbox.append(lambda: broker.deliver(consumer, b))
        self._read_mailbox(number, b, 0)

    def _read_mailbox(self, number: int, a: int, b: int) -> None:
        channel = self._sending(number)
        for _ in range(a % 4):
            if channel is not None and channel.mailbox:
                channel.mailbox.popleft()()

    def _confirm(self, number: int, a: int, b: int) -> None:
        channel = self._sending(number)
        if channel is None or channel.mode != "confirm":
            return
        tags = [each.confirm_tag or 0 for each in channel.pending]
        if not tags and b % 16:
            return
        handled = max((each.confirm_tag or 0 for each in channel.published), default=0)
        tag = tags[a % len(tags)] if b % 16 else [a % (handled + 1), 10_000][a % 4 == 0]
        multiple = b % 2 == 0
        if not tag and (b % 5 or channel.inbox):
            return
        method: BasicAck | BasicNack = BasicNack(tag, multiple, True) if b % 7 == 6 else BasicAck(tag, multiple)
        channel.pending = [
            each
            for each in channel.pending
            if each.confirm_tag != tag and not (multiple and (tag == 0 or (each.confirm_tag or 0) < tag))
        ]
        self._send(SERVER, number, method)
        channel.life.confirm(method, self.ts_ns)

    def _cancel_by_broker(self, number: int, a: int, b: int) -> None:
        channel = self._sending(number)
        if channel is None or not channel.consumers or a % 3:
            return
        tag = [*channel.consumers][a % len(channel.consumers)]
        del channel.consumers[tag]

        def cancel() -> None:
            self._send(SERVER, number, BasicCancel(tag, no_wait=True))

        channel.mailbox.append(cancel)

    def _flow(self, number: int, a: int, b: int) -> None:
        channel = self._sending(number)
        if channel is not None and not a % 3:
            method = ChannelFlow(False)
            self._send(SERVER, number, method)
            channel.flow.append(channel.life.request(SERVER, method, self.ts_ns))

    def _close_by_broker(self, number: int, a: int, b: int) -> None:
        channel = self._sending(number)
        if channel is not None and not a % 4:
            _Broker(self, channel).close(ChannelClose(541, "INTERNAL_ERROR"), None)

    def _finish_content(self, number: int, a: int, b: int) -> None:
        self._flush([CLIENT, SERVER][a % 2], number)


class _Broker:
    """The broker, at one channel."""

    def __init__(self, simulation: Simulation, channel: SimulatedChannel) -> None:
        self._simulation = simulation
        self._channel = channel
        self._life = channel.life

    def _send(self, method: Method) -> None:
        self._simulation._send(SERVER, self._channel.number, method)

    def _now(self) -> int:
        return self._simulation.ts_ns

    def close(self, close: ChannelClose, cause: Method | None) -> None:
        channel = self._channel
        if channel.is_reused:  # the client would not know which channel this is about
            channel.is_deaf = True
            return
        self._send(close)
        channel.mailbox.clear()
        channel.unanswered.add(SERVER)
        channel.life.close(SERVER, self._now(), cause)

    def _refuse(self, method: Method, code: int, text: str) -> None:
        self.close(ChannelClose(code, text, method.class_id, method.method_id), method)

    def handle(self, sent: Sent, b: int) -> None:
        channel, method = self._channel, sent.method
        if isinstance(method, ChannelClose):
            self._send(ChannelCloseOk())
            self._simulation._answered(channel, CLIENT)
            return
        if channel.is_closed_by_broker():
            return
        match method:
            case ChannelOpen():
                channel.is_open = True
                self._send(ChannelOpenOk())
            case BasicPublish():
                assert sent.publish is not None
                self._publish(method, sent.publish, b)
            case BasicAck() | BasicNack() | BasicReject():
                self._settle(method)
            case BasicConsume():
                self._consume(method, sent)
            case BasicCancel():
                channel.consumers.pop(method.consumer_tag, None)
                if sent.request is not None:
                    self._reply_later(sent.request, BasicCancelOk(method.consumer_tag))
            case BasicGet():
                self._get(method, sent.request, b)
            case QueueDeclare():
                self._declare(method, sent.request)
            case BasicQos():
                self._reply(sent.request, BasicQosOk())
            case BasicRecover():
                channel.unacked.clear()
                assert sent.request is not None
                self._reply(sent.request, BasicRecoverOk())
                self._life.recovering -= 1
                self._life.recovered(self._now(), requeue=method.requeue)
            case ConfirmSelect() | TxSelect():
                self._select(method, sent.request)
            case TxCommit() | TxRollback():
                self._end_transaction(method, sent.request, b)
            case _:
                pass

    def _reply(self, request: Request | None, reply: Method) -> None:
        if request is not None:
            self._send(reply)
            self._life.answer(request, reply, self._now())

    def _reply_later(self, request: Request, reply: Method) -> None:
        self._channel.mailbox.append(lambda: self._reply(request, reply))

    def _publish(self, method: BasicPublish, publish: Publish, b: int) -> None:
        channel = self._channel
        if method.exchange == MISSING:
            if b % 2:
                close = ConnectionClose(540, "NOT_IMPLEMENTED", method.class_id, method.method_id)
                self._simulation._close_connection_by(SERVER, close, method)
            else:
                self._refuse(method, 404, f"NOT_FOUND - no exchange '{MISSING}' in vhost '/'")
            return
        channel.published.append(publish)
        if channel.mode == "tx":
            channel.in_transaction.append(publish)
            return
        if channel.mode == "confirm":
            channel.pending.append(publish)
        self._maybe_return(publish, b)

    def _maybe_return(self, publish: Publish, b: int) -> None:
        method = publish.method
        assert isinstance(method, BasicPublish)
        if not method.mandatory or b % 2:
            return
        returned = BasicReturn(312, "NO_ROUTE", method.exchange, method.routing_key)

        def then() -> None:
            self._life.returned(publish, self._now())

        self._simulation._send_content(SERVER, self._channel.number, returned, publish.body, 1, then)

    def _settle(self, method: BasicAck | BasicNack | BasicReject) -> None:
        channel, tag = self._channel, method.delivery_tag
        multiple = getattr(method, "multiple", False)
        if not (multiple and tag == 0) and tag not in channel.unacked:
            self._refuse(method, 406, f"PRECONDITION_FAILED - unknown delivery tag {tag}")
            return
        settled = {each for each in channel.unacked if each == tag or (multiple and (not tag or each < tag))}
        channel.unacked -= settled
        if channel.mode == "tx":
            channel.acked += settled

    def _queue(self, name: str) -> str | None:
        return name or self._channel.last_queue

    def _consume(self, method: BasicConsume, sent: Sent) -> None:
        channel, simulation = self._channel, self._simulation
        queue = self._queue(method.queue)
        tag = method.consumer_tag
        if not tag:
            simulation._names += 1
            tag = f"amq.ctag-{simulation._names}"
        is_ambiguous = not method.queue and channel.is_queue_ambiguous
        channel.consumers[tag] = Consumer(tag, queue, method.no_ack, is_ambiguous)
        if sent.request is None:
            return
        if method.queue == REPLY_TO:
            self._reply(sent.request, BasicConsumeOk(tag))
        else:
            self._reply_later(sent.request, BasicConsumeOk(tag))

    def _declare(self, method: QueueDeclare, request: Request | None) -> None:
        channel, name = self._channel, method.queue
        if name == MISSING:
            self._refuse(method, 404, f"NOT_FOUND - no queue '{MISSING}' in vhost '/'")
            return
        if not name:
            self._simulation._names += 1
            name = f"amq.gen-{self._simulation._names}"
        channel.last_queue = name
        channel.is_queue_ambiguous = request is None and not method.queue
        self._reply(request, QueueDeclareOk(name, 0, 0))

    def _get(self, method: BasicGet, request: Request | None, b: int) -> None:
        assert request is not None
        channel = self._channel
        if b % 3 == 0:
            self._reply(request, BasicGetEmpty())
            return
        channel.tag += 1
        tag, body, queue = channel.tag, self._simulation._body(b % 3), self._queue(method.queue)
        is_ambiguous = not method.queue and channel.is_queue_ambiguous
        if not method.no_ack:
            channel.unacked.add(tag)
        reply = BasicGetOk(tag, False, "e", "k", 0)

        def then() -> None:
            self._life.deliver(
                tag,
                body,
                self._now(),
                queue=queue,
                awaits=not method.no_ack,
                is_ambiguous=is_ambiguous,
                got_after_ns=request.replied_ts_ns - request.ts_ns,
            )

        self._simulation._flush(SERVER, channel.number)
        self._life.answer(request, reply, self._now())
        self._simulation._send_content(SERVER, channel.number, reply, body, b, then)

    def deliver(self, consumer: Consumer, b: int) -> None:
        channel = self._channel
        if consumer.queue == REPLY_TO:
            tag = channel.tag + 1
        else:
            channel.tag += 1
            tag = channel.tag
        body = self._simulation._body(b % 3)
        if not consumer.no_ack:
            channel.unacked.add(tag)

        def then() -> None:
            self._life.deliver(
                tag,
                body,
                self._now(),
                queue=consumer.queue,
                awaits=not consumer.no_ack,
                is_ambiguous=consumer.is_ambiguous
                or "" in channel.loose_tags
                or (channel.tag_uses[consumer.tag] > 1 and consumer.tag in channel.loose_tags),
            )

        method = BasicDeliver(consumer.tag, tag, False, "e", "k")
        self._simulation._send_content(SERVER, channel.number, method, body, b, then)

    def _select(self, method: ConfirmSelect | TxSelect, request: Request | None) -> None:
        mode: Any = "confirm" if isinstance(method, ConfirmSelect) else "tx"
        if self._channel.mode not in ("normal", mode):
            self._refuse(method, 406, "PRECONDITION_FAILED - cannot switch the mode")
            return
        self._channel.mode = mode
        self._reply(request, ConfirmSelectOk() if mode == "confirm" else TxSelectOk())

    def _end_transaction(self, method: TxCommit | TxRollback, request: Request | None, b: int) -> None:
        channel = self._channel
        if channel.mode != "tx":
            self._refuse(method, 406, "PRECONDITION_FAILED - channel is not transactional")
            return
        is_commit = isinstance(method, TxCommit)
        if is_commit:
            for publish in channel.in_transaction:
                self._maybe_return(publish, b)
        else:
            channel.unacked |= set(channel.acked)
        channel.in_transaction, channel.acked = [], []
        self._reply(request, TxCommitOk() if is_commit else TxRollbackOk())
        self._life.transaction_ended(self._now())
