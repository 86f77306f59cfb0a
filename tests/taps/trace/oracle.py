"""What must come out of a trace: a plain model of one connection, with one object for each message and each request.

Written from AMQP 0-9-1 (sections 1.4 to 1.9), RabbitMQ's confirms, and what RabbitMQ does where those are silent. It is
told what no observer of the wire can know (which consumer a delivery is for, which publish a return gives back, which
request a reply answers, which method a close is about) by the broker of `simulation`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from amqproxy.amqp091.methods import BasicAck, BasicNack, BasicReject, Method
from amqproxy.amqp091.transitions import Peer
from amqproxy.taps.trace.events import Settlement


@dataclass(eq=False)
class Publish:
    """A message that the client has sent; `confirm_tag` is the broker's number for it."""

    body: bytes
    number: int
    ts_ns: int
    method: Method
    confirm_tag: int | None
    awaits: bool
    may_be_returned: bool
    outcome: Settlement | None = None
    settled_ts_ns: int = 0


@dataclass(eq=False)
class Delivery:
    """A message that the broker has sent; `is_ambiguous` if the wire does not show for which consumer."""

    body: bytes
    tag: int
    ts_ns: int
    queue: str | None
    awaits: bool
    is_ambiguous: bool
    got_after_ns: int | None
    outcome: Settlement | None = None
    settled_ts_ns: int = 0
    requeue: bool = False
    held: tuple[Settlement, bool] | None = None

    @property
    def is_open(self) -> bool:
        return self.awaits and self.outcome is None and self.held is None

    def settle(self, outcome: Settlement, ts_ns: int, *, requeue: bool = False) -> None:
        self.outcome, self.settled_ts_ns, self.requeue = outcome, ts_ns, requeue


@dataclass(eq=False)
class Request:
    """A synchronous method."""

    sender: Peer
    method: Method
    ts_ns: int
    reply: Method | None = None
    replied_ts_ns: int = 0


@dataclass(eq=False)
class Acknowledgement:
    """A basic.ack, nack or reject of either peer; `is_unknown` is None where only the broker can know."""

    sender: Peer
    ts_ns: int
    tag: int
    is_unknown: bool | None


@dataclass(eq=False)
class Return:
    """A basic.return; `is_ambiguous` if another publish, which may be returned, too, holds the same."""

    publish: Publish
    ts_ns: int
    is_ambiguous: bool


@dataclass(eq=False)
class Close:
    """A channel.close, with what it is about."""

    by: Peer
    ts_ns: int
    cause: Method | None


@dataclass(eq=False)
class _Transaction:
    is_commit: bool
    publishes: list[Publish]
    deliveries: list[Delivery]


@dataclass(eq=False)
class Life:
    """A channel from channel.open to its end. Each method is to be called in the order of the wire.

    It `has_unclear_consumers` if the client has used one consumer tag, or none, for direct replies and for others: the
    replies to the former overtake those to the latter, and none shows which it is for.
    """

    number: int
    mode: str = "normal"
    is_unread: bool = False
    ended_ts_ns: int | None = None
    has_unclear_consumers: bool = False
    publishes: list[Publish] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    acknowledgements: list[Acknowledgement] = field(default_factory=list)
    returns: list[Return] = field(default_factory=list)
    closes: list[Close] = field(default_factory=list)
    confirmed_from: int = 0
    recovering: int = 0
    transactions: list[_Transaction] = field(default_factory=list)
    in_transaction: list[Publish] = field(default_factory=list)

    # --- what the client sends

    def publish(self, method: Method, body: bytes, ts_ns: int, *, may_be_returned: bool) -> Publish:
        number = len(self.publishes) + 1
        tag = number - self.confirmed_from if self.mode == "confirm" and not self.is_unread else None
        awaits = self.mode != "normal" or self.is_unread
        made = Publish(body, number, ts_ns, method, tag, awaits, may_be_returned)
        self.publishes.append(made)
        if self.mode == "tx" and not self.is_unread:
            self.in_transaction.append(made)
        return made

    def select(self, mode: str) -> None:
        """confirm.select or tx.select; a channel that has one mode cannot get the other."""
        if self.mode == "normal" and not self.is_unread:
            self.mode = mode
            self.confirmed_from = len(self.publishes)

    def settle(self, method: BasicAck | BasicNack | BasicReject, ts_ns: int) -> None:
        """basic.ack, nack or reject of deliveries."""
        if self.is_unread:
            return
        tag, multiple = method.delivery_tag, getattr(method, "multiple", False)
        kind = {
            BasicAck: Settlement.ACKED,
            BasicNack: Settlement.NACKED,
            BasicReject: Settlement.REJECTED,
        }[type(method)]
        requeue = getattr(method, "requeue", False)
        is_all = multiple and tag == 0
        settled = [
            each
            for each in self.deliveries
            if each.is_open and (is_all or each.tag == tag or (multiple and each.tag < tag))
        ]
        is_known = is_all or any(each.tag == tag for each in settled)
        unknown: bool | None = not is_known
        if self.recovering:
            is_known, settled, unknown = False, [], None if tag else not is_all  # no delivery has the tag 0
        self.acknowledgements.append(Acknowledgement(Peer.CLIENT, ts_ns, tag, unknown))
        if not is_known:
            return
        for each in settled:
            if self.mode == "tx":
                each.held = (kind, requeue)
            else:
                each.settle(kind, ts_ns, requeue=requeue)

    def end_transaction(self, *, is_commit: bool) -> None:
        """tx.commit or tx.rollback."""
        if self.is_unread or self.mode != "tx":
            return
        held = [each for each in self.deliveries if each.held is not None]
        under_way = [each for other in self.transactions for each in other.deliveries]
        held = [each for each in held if each not in under_way]
        if not is_commit:
            for each in held:
                each.held = None
            held = []
        self.transactions.append(_Transaction(is_commit, self.in_transaction, held))
        self.in_transaction = []

    def recover(self) -> None:
        if not self.is_unread:
            self.recovering += 1

    def request(self, sender: Peer, method: Method, ts_ns: int) -> Request:
        made = Request(sender, method, ts_ns)
        self.requests.append(made)
        return made

    # --- what the broker sends

    def answer(self, request: Request, reply: Method, ts_ns: int) -> None:
        request.reply, request.replied_ts_ns = reply, ts_ns

    def confirm(self, method: BasicAck | BasicNack, ts_ns: int) -> None:
        outcome = Settlement.CONFIRMED if isinstance(method, BasicAck) else Settlement.NACKED
        tag, multiple = method.delivery_tag, method.multiple
        still = [each for each in self.publishes if each.confirm_tag is not None and each.outcome is None]
        sent = max((each.confirm_tag or 0 for each in self.publishes), default=0)
        is_all = multiple and tag == 0
        is_known = is_all or any(each.confirm_tag == tag for each in still)
        self.acknowledgements.append(Acknowledgement(Peer.SERVER, ts_ns, tag, not is_known))
        if tag > sent:
            return
        for each in still:
            assert each.confirm_tag is not None
            if is_all or each.confirm_tag == tag or (multiple and each.confirm_tag < tag):
                each.outcome, each.settled_ts_ns = outcome, ts_ns

    def transaction_ended(self, ts_ns: int) -> None:
        """tx.commit-ok or tx.rollback-ok."""
        ended = self.transactions.pop(0)
        for publish in ended.publishes:
            publish.outcome = Settlement.COMMITTED if ended.is_commit else Settlement.ROLLED_BACK
            publish.settled_ts_ns = ts_ns
        for delivery in ended.deliveries:
            assert delivery.held is not None
            (outcome, requeue), delivery.held = delivery.held, None
            delivery.settle(outcome, ts_ns, requeue=requeue)

    def recovered(self, ts_ns: int, *, requeue: bool) -> None:
        """basic.recover-ok, or the client's basic.recover-async."""
        for each in self.deliveries:
            if each.is_open:
                each.settle(Settlement.RECOVERED, ts_ns, requeue=requeue)

    def deliver(
        self,
        tag: int,
        body: bytes,
        ts_ns: int,
        *,
        queue: str | None,
        awaits: bool,
        is_ambiguous: bool = False,
        got_after_ns: int | None = None,
    ) -> None:
        self.deliveries.append(Delivery(body, tag, ts_ns, queue, awaits, is_ambiguous, got_after_ns))

    def returned(self, publish: Publish, ts_ns: int) -> None:
        alike = [
            each
            for each in self.publishes
            if each.may_be_returned
            and each.outcome is None
            and each.method == publish.method
            and len(each.body) == len(publish.body)
        ]
        self.returns.append(Return(publish, ts_ns, len(alike) > 1))

    # --- the end

    def close(self, by: Peer, ts_ns: int, cause: Method | None = None) -> None:
        """channel.close, or connection.close: from now on the broker reads nothing else of the client."""
        self.is_unread = True
        self.closes.append(Close(by, ts_ns, cause))

    def end(self, ts_ns: int) -> None:
        """Both peers are done with the channel, or the connection is over."""
        if self.ended_ts_ns is not None:
            return
        self.ended_ts_ns = ts_ns
        for publish in self.publishes:
            if publish.awaits and publish.outcome is None:
                publish.outcome, publish.settled_ts_ns = Settlement.OPEN, ts_ns
        for delivery in self.deliveries:
            if delivery.awaits and delivery.outcome is None:
                delivery.settle(Settlement.OPEN, ts_ns)
