"""Two clients: one sends anything at all, the other must notice nothing, and nothing may fail inside."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from msgspec import structs

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import (
    DtxCommit,
    DtxEnd,
    DtxPrepare,
    DtxRollback,
    DtxSelect,
    DtxStart,
    ExchangeBind,
    ExchangeDeclare,
    MessageAccept,
    MessageAcquire,
    MessageCancel,
    MessageFlow,
    MessageFlush,
    MessageReject,
    MessageRelease,
    MessageSetFlowMode,
    MessageStop,
    MessageSubscribe,
    MessageTransfer,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueQuery,
    TxCommit,
    TxRollback,
    TxSelect,
)
from amqproxy.amqp010.controls import (
    ConnectionClose,
    SessionAttach,
    SessionCommandPoint,
    SessionCompleted,
    SessionDetach,
    SessionExpected,
    SessionFlush,
    SessionGap,
    SessionKnownCompleted,
    SessionRequestTimeout,
)
from amqproxy.amqp010.domains import XaStatus
from amqproxy.amqp010.methods import BY_INDEX, Method
from amqproxy.amqp010.properties import DeliveryProperties, Header, MessageProperties
from amqproxy.amqp010.results import Xid
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.broker.access.permissions import Permission
from amqproxy.broker.access.users import User
from amqproxy.broker.broker import Broker
from tests.amqp010.strategies import headers, methods_of
from tests.broker.amqp010.client import INFINITE, Client010, Session010
from tests.example_count import example_count

pytestmark = pytest.mark.slow

OWN = "bad"
"""What the other may use begins with this."""

CHANNELS = (1, 2)
SESSIONS = (b"bad1", b"bad2")
MOST_BYTES = 4 * 1024 * 1024
"""What the broker may hold for a client that has sent less than that."""

GOOD, QUEUE = Xid(1, b"good", b""), "good"

queue_names = st.sampled_from(["bad", "bad", "bad", "bad2", "bad2", "bad3", QUEUE, ""])
exchange_names = st.sampled_from(["bad.x", "bad.x", "amq.topic", "amq.fanout", "amq.match", "amq.nothing", ""])
destinations = st.sampled_from(["a", "a", "a", "b"])
rarely = st.integers(0, 7).map(lambda number: number == 7)
ids = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=3).map(
    lambda pairs: SequenceSet([(min(pair), max(pair)) for pair in pairs])
)
wide_ids = st.one_of(ids, ids, st.just(SequenceSet([(0, INFINITE)])), st.just(SequenceSet([(1 << 31, 5)])))
POOLS: dict[str, st.SearchStrategy[Any]] = {
    "queue": queue_names,
    "exchange": exchange_names,
    "destination": destinations,
    "name_": st.sampled_from(SESSIONS),
    "alternate_exchange": st.sampled_from([None, None, "bad.x", "amq.fanout", "nothing"]),
    "type": st.sampled_from(["fanout", "fanout", "fanout", "topic", "other", None]),
    "binding_key": st.sampled_from(["", "a", "a.*", "#", QUEUE, None]),
    "transfers": wide_ids,
    "commands": wide_ids,
    "xid": st.sampled_from([Xid(1, b"a", b"b"), Xid(1, b"c", b""), Xid(2, b"c", b"")]),
    "passive": st.just(False),
    "arguments": st.none(),
    "command_id": st.sampled_from([0, 0, 5, INFINITE]),
    "command_offset": st.sampled_from([0, 0, 0, 1]),
    "timeout": st.sampled_from([None, 0, 5, INFINITE]),
    "accept_mode": st.sampled_from([None, 0, 1]),
    "acquire_mode": st.sampled_from([None, 0, 1]),
    "flow_mode": st.sampled_from([0, 1, 7]),
    "unit": st.sampled_from([0, 1, 7]),
    "value": st.sampled_from([0, 1, 50, INFINITE]),
}
"""What makes sense, or nearly, in the fields of these names."""

PLAUSIBLE = (
    DtxCommit,
    DtxEnd,
    DtxPrepare,
    DtxRollback,
    DtxSelect,
    DtxStart,
    ExchangeBind,
    ExchangeDeclare,
    MessageAccept,
    MessageAcquire,
    MessageCancel,
    MessageFlow,
    MessageFlush,
    MessageReject,
    MessageRelease,
    MessageSetFlowMode,
    MessageStop,
    MessageSubscribe,
    MessageTransfer,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueQuery,
    TxCommit,
    TxRollback,
    TxSelect,
)
CONTROLS = (
    SessionAttach,
    SessionCommandPoint,
    SessionCompleted,
    SessionDetach,
    SessionExpected,
    SessionFlush,
    SessionGap,
    SessionKnownCompleted,
    SessionRequestTimeout,
)


@st.composite
def plausible(draw: st.DrawFn, classes: tuple[type[Method], ...]) -> Method:
    """A method of one of these classes, with values that make sense where there are such."""
    method: Method = draw(st.sampled_from(classes).flatmap(methods_of))
    given = {name: draw(POOLS[name]) for name in method.__struct_fields__ if name in POOLS}
    if isinstance(method, MessageTransfer):
        given["destination"] = draw(exchange_names)
    elif isinstance(method, QueueDeclare | QueueDelete | ExchangeDeclare):
        given["queue" if "queue" in given else "exchange"] = draw(st.sampled_from(["bad", "bad2", "bad3", "bad.x"]))
        given |= {"if_unused": False} if isinstance(method, QueueDelete) else {"exclusive": draw(rarely)}
    given = {name: value for name, value in given.items() if name in method.__struct_fields__}
    return structs.replace(method, **given)


commands = plausible(PLAUSIBLE)
any_method = st.sampled_from(BY_INDEX).flatmap(methods_of)
deliveries = st.builds(
    lambda key, mode, priority, discard: DeliveryProperties(
        routing_key=key, delivery_mode=mode, priority=priority, discard_unroutable=discard
    ),
    st.sampled_from(["bad", "bad2", QUEUE, "a", ""]),
    st.sampled_from([None, 1, 2]),
    st.sampled_from([None, 0, 9]),
    st.booleans(),
)
transfer_headers = st.one_of(
    st.builds(lambda delivery: Header((delivery, MessageProperties())), deliveries), headers, st.none()
)
bodies = st.one_of(st.binary(max_size=20), st.just(bytes(3000)), st.none())


class RandomCommands(RuleBasedStateMachine):
    """The good one has a queue and keeps count of what is in it, in a transaction and out of one."""

    def __init__(self) -> None:
        super().__init__()
        self.broker = Broker()
        self.failures: list[tuple[Any, ...]] = []
        self.broker.events.on_failure = lambda event, failure, **fields: self.failures.append((event, failure, fields))
        self.broker.work.quantum.limit(16)
        bad = User.with_password("bad", "bad")
        pattern = f"^({OWN}.*|amq\\.(topic|match|fanout))$"
        bad.permit("/", Permission(pattern, pattern, pattern))
        self.broker.add_user(bad)
        self.now = 1000.0
        self.good = Client010(self.broker).open()
        self.session = self.good.session(1, b"good")
        self.session.declare(QUEUE)
        self.session.declare("bad")
        self.session.declare("bad2")
        self.waiting: list[bytes] = []
        """What is in the good one's queue."""
        self.count = 0
        self.bad: list[Client010] = []
        self.sent = 0

    @initialize()
    def begin(self) -> None:
        self.bad = [Client010(self.broker).open(user="bad", password="bad") for _ in range(2)]

    # --- the one that sends anything

    def feed(self, which: int, data: bytes) -> None:
        client = self.bad[which]
        client.now = self.now
        self.sent += len(data)
        client.feed(data)

    def attach(self, which: int, channel: int) -> None:
        """Attach the session of a channel again, if an exception has ended it."""
        if channel not in self.bad[which].connection.channels:
            for control in (SessionAttach(SESSIONS[which] + b"%d" % channel), SessionCommandPoint(0, 0)):
                self.feed(which, Assembly(channel, control, None, None).encode(65_535))

    @rule(
        which=st.integers(0, 1),
        channel=st.sampled_from(CHANNELS),
        methods=st.lists(commands, min_size=1, max_size=10),
        header=transfer_headers,
        body=bodies,
    )
    def bad_commands(
        self, which: int, channel: int, methods: list[Method], header: Header | None, body: bytes | None
    ) -> None:
        for method in methods:
            self.attach(which, channel)
            content = (header, body) if isinstance(method, MessageTransfer) else (None, None)
            self.feed(which, Assembly(channel, method, *content).encode(65_535))

    @rule(which=st.integers(0, 1), channel=st.sampled_from(CHANNELS), queue=queue_names, accept=st.integers(0, 1))
    def bad_subscription(self, which: int, channel: int, queue: str, accept: int) -> None:
        self.attach(which, channel)
        methods = [MessageSubscribe(queue, "a", accept, 0), *(MessageFlow("a", unit, INFINITE) for unit in (0, 1))]
        for method in methods:
            self.feed(which, Assembly(channel, method, None, None).encode(65_535))

    @rule(which=st.integers(0, 1), channel=st.sampled_from(CHANNELS), method=plausible(CONTROLS))
    def bad_control(self, which: int, channel: int, method: Method) -> None:
        self.feed(which, Assembly(channel, method, None, None).encode(65_535))

    @rule(which=st.integers(0, 1), channel=st.integers(0, 3), method=any_method, header=headers, body=bodies)
    def bad_method(self, which: int, channel: int, method: Method, header: Header, body: bytes | None) -> None:
        with suppress(ValueError, TypeError):
            self.feed(which, Assembly(channel, method, header, body).encode(65_535))

    @rule(which=st.integers(0, 1), method=plausible(PLAUSIBLE), at=st.integers(0, 60), byte=st.integers(0, 255))
    def bad_byte(self, which: int, method: Method, at: int, byte: int) -> None:
        data = bytearray(Assembly(1, method, None, None).encode(65_535))
        data[at % len(data)] = byte
        for start in range(0, len(data), 7):
            self.feed(which, bytes(data[start : start + 7]))

    @rule(which=st.integers(0, 1))
    def bad_one_reads(self, which: int) -> None:
        self.bad[which].connection.take_output()
        self.bad[which].connection.sent(self.now)

    @rule(which=st.integers(0, 1), is_closed=st.booleans())
    def bad_one_comes_back(self, which: int, is_closed: bool) -> None:
        """Its connection is lost, or closed, and another begins: with the same sessions."""
        old = self.bad[which]
        if is_closed:
            old.send(0, ConnectionClose(200, "bye"))
        old.connection.lose(self.now)
        self.broker.work.go_on(self.now)
        new = self.bad[which] = Client010(self.broker)
        new.now = self.now
        new.open(user="bad", password="bad")

    @rule(seconds=st.sampled_from([0.0, 0.2, 10.0, 4000.0]))
    def time_goes_by(self, seconds: float) -> None:
        self.now += seconds
        self.good.now = self.now
        self.good.tick()

    # --- the one that must notice nothing

    def take(self) -> list[tuple[int, bytes]]:
        self.session.take()
        found = [(position, assembly.body) for position, assembly in self.session.messages]
        self.session.messages = []
        return found

    def publish(self) -> bytes:
        body = b"%d" % self.count
        self.count += 1
        self.session.transfer(body, QUEUE)
        return body

    @rule(count=st.integers(1, 3))
    def publishes(self, count: int) -> None:
        self.waiting += [self.publish() for _ in range(count)]

    @rule(credit=st.integers(1, 4), outcome=st.sampled_from(["accept", "release", "reject"]))
    def consumes(self, credit: int, outcome: str) -> None:
        self.session.subscribe(QUEUE, "d", messages=credit)
        got = self.take_all()
        assert [body for _, body in got] == self.waiting[:credit]
        positions = SequenceSet.of([position for position, _ in got])
        self.session.call(MessageCancel("d"))
        if got:
            self.session.call(
                {"accept": MessageAccept, "release": MessageRelease, "reject": MessageReject}[outcome](positions)
            )
        if outcome != "release":
            del self.waiting[: len(got)]

    def take_all(self) -> list[tuple[int, bytes]]:
        found = [(position, assembly.body) for position, assembly in self.session.messages]
        self.session.messages = []
        return found + self.take()

    @rule(is_committed=st.booleans())
    def works_in_a_branch(self, is_committed: bool) -> None:
        session = self.good.session(2, b"dtx")
        session.call(DtxSelect())
        assert session.call(DtxStart(GOOD)).status == XaStatus.XA_OK
        body = b"%d" % self.count
        self.count += 1
        session.transfer(body, QUEUE)
        assert session.call(DtxEnd(GOOD)).status == XaStatus.XA_OK
        assert session.call(DtxPrepare(GOOD)).status == XaStatus.XA_OK
        command = DtxCommit(GOOD) if is_committed else DtxRollback(GOOD)
        assert session.call(command).status == XaStatus.XA_OK
        if is_committed:
            self.waiting.append(body)
        self.detach(session)

    @rule(is_committed=st.booleans())
    def works_in_a_transaction(self, is_committed: bool) -> None:
        session = self.good.session(2, b"tx")
        session.call(TxSelect())
        bodies = [b"%d" % (self.count + number) for number in range(3)]
        self.count += 3
        for body in bodies:
            session.transfer(body, QUEUE)
        session.call(TxCommit() if is_committed else TxRollback())
        if is_committed:
            self.waiting += bodies
        self.detach(session)

    def detach(self, session: Session010) -> None:
        self.good.send(session.number, SessionDetach(session.name))
        session.take()
        assert [each.name for each in session.others[-1:]] == ["session.detached"]

    @invariant()
    def nothing_is_noticed(self) -> None:
        self.good.rest()
        assert self.failures == []
        assert self.session.exception is None
        assert not self.good.connection.is_over
        assert self.session.call(QueueQuery(QUEUE)).message_count == len(self.waiting)
        assert not self.take()

    @invariant()
    def memory_is_bounded(self) -> None:
        for client in self.bad:
            assert client.connection.output.waiting <= MOST_BYTES
        assert self.broker.bytes_in_memory <= MOST_BYTES + 4 * self.sent


def run(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        RandomCommands,
        settings=settings(
            max_examples=example_count(examples),
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
        ),
    )


def test_a_few_random_commands() -> None:
    run(8, 30)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_many_random_commands() -> None:
    run(2000, 100)
