"""Random programs of a few sessions: what each is sent, and what is left in the queues, is as the reference has it."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from amqproxy.amqp010.commands import (
    MessageAccept,
    MessageCancel,
    MessageFlow,
    MessageReject,
    MessageRelease,
    MessageSetFlowMode,
    MessageStop,
    MessageSubscribe,
    MessageTransfer,
    QueuePurge,
    QueueQuery,
    TxCommit,
    TxRollback,
    TxSelect,
)
from amqproxy.amqp010.controls import SessionDetach
from amqproxy.amqp010.domains import CreditUnit, FlowMode
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.broker.broker import Broker
from tests.broker.amqp010.client import INFINITE, Client010, Session010
from tests.broker.amqp010.reference_session import Reference, Session
from tests.example_count import example_count

pytestmark = pytest.mark.slow

QUEUES = ("q", "p")
SESSIONS = 3
OPERATIONS = 4
"""Of one turn, where turns are short."""

queues = st.sampled_from(QUEUES)
numbers = st.integers(0, SESSIONS - 1)
destinations = st.sampled_from(["a", "b"])
whiches = st.integers(0, 2 * SESSIONS - 1)
credits = st.sampled_from([1, 2, 5, None])
picks = st.tuples(st.integers(0, 30), st.integers(1, 4))


class Programs(RuleBasedStateMachine):
    """Each session is on a connection of its own; one more asks how much is in the queues."""

    operations: int | None = None

    def __init__(self) -> None:
        super().__init__()
        self.broker = Broker()
        self.reference = Reference(QUEUES, SESSIONS)
        self.asking = Client010(self.broker).open().session(1, b"asking")
        for queue in QUEUES:
            self.asking.declare(queue)
        self.sessions = [self.attach(number) for number in range(SESSIONS)]
        self.received: list[list[int]] = [[] for _ in range(SESSIONS)]
        """The ids of all transfers that a session was sent."""
        self.count = 0
        if self.operations is not None:
            self.broker.work.quantum.limit(self.operations)

    @initialize(
        each=st.lists(st.tuples(queues, st.booleans(), st.booleans(), credits), min_size=SESSIONS, max_size=SESSIONS),
        transactional=numbers,
    )
    def begin(self, each: list[tuple[str, bool, bool, int | None]], transactional: int) -> None:
        """With subscriptions and messages: programs are short."""
        for number, (queue, accepts, is_window, credit) in enumerate(each):
            self.subscribe(number, "a", queue, accepts, is_window, credit)
        for queue in QUEUES:
            self.publish(0, queue, 6)
        self.select(transactional)

    def attach(self, number: int) -> Session010:
        return Client010(self.broker).open().session(1, b"%d" % number)

    def both(self, number: int) -> tuple[Session010, Session]:
        return self.sessions[number], self.reference.sessions[number]

    def picked(self, number: int, pick: tuple[int, int]) -> tuple[int, list[int]]:
        """A few ids that follow each other, of what the session was sent, settled or not: the given, or the next."""
        for _ in range(SESSIONS - 1):
            if not self.received[number]:
                number = (number + 1) % SESSIONS
        first, count = pick
        ids = self.received[number]
        first %= max(len(ids), 1)
        return number, ids[first : first + count]

    @rule(number=numbers, queue=queues, count=st.integers(1, 5))
    def publish(self, number: int, queue: str, count: int) -> None:
        session, expected = self.both(number)
        for _ in range(count):
            body = b"%d" % self.count
            self.count += 1
            session.transfer(body, queue)
            expected.publish(self.reference.queues[queue], body)

    def subscribed(self, which: int) -> tuple[Session010, Session, str] | None:
        """One of the subscriptions, if there are any."""
        found = [
            (self.sessions[number], expected, destination)
            for number, expected in enumerate(self.reference.sessions)
            for destination in expected.subscriptions
        ]
        return found[which % len(found)] if found else None

    @rule(
        number=numbers,
        destination=destinations,
        queue=queues,
        accepts=st.sampled_from([True, True, False]),
        is_window=st.booleans(),
        credit=credits,
    )
    def subscribe(
        self, number: int, destination: str, queue: str, accepts: bool, is_window: bool, credit: int | None
    ) -> None:
        session, expected = self.both(number)
        if destination in expected.subscriptions:
            return
        session.call(MessageSubscribe(queue, destination, 0 if accepts else 1, 0))
        mode = FlowMode.WINDOW if is_window else FlowMode.CREDIT
        session.call(MessageSetFlowMode(destination, mode))
        session.call(MessageFlow(destination, CreditUnit.BYTE, INFINITE))
        session.send(MessageFlow(destination, CreditUnit.MESSAGE, INFINITE if credit is None else credit))
        expected.subscribe(destination, self.reference.queues[queue], accepts=accepts, is_window=is_window)
        expected.flow(destination, credit)

    @rule(which=whiches, credit=credits)
    def flow(self, which: int, credit: int | None) -> None:
        if found := self.subscribed(which):
            session, expected, destination = found
            session.send(MessageFlow(destination, CreditUnit.MESSAGE, INFINITE if credit is None else credit))
            expected.flow(destination, credit)

    @rule(which=whiches)
    def stop(self, which: int) -> None:
        if found := self.subscribed(which):
            session, expected, destination = found
            session.call(MessageStop(destination))
            session.call(MessageFlow(destination, CreditUnit.BYTE, INFINITE))
            expected.stop(destination)

    @rule(which=whiches)
    def cancel(self, which: int) -> None:
        if found := self.subscribed(which):
            session, expected, destination = found
            session.call(MessageCancel(destination))
            del expected.subscriptions[destination]

    @rule(number=numbers, pick=picks)
    def complete(self, number: int, pick: tuple[int, int]) -> None:
        number, ids = self.picked(number, pick)
        session, expected = self.both(number)
        if ids:
            session.complete(*ids)
            expected.complete(ids)

    @rule(number=numbers, pick=picks, outcome=st.sampled_from(["accept", "accept", "reject", "release", "mark"]))
    def settle(self, number: int, pick: tuple[int, int], outcome: str) -> None:
        number, ids = self.picked(number, pick)
        session, expected = self.both(number)
        transfers = SequenceSet.of(ids)
        if outcome == "accept":
            session.send(MessageAccept(transfers))
            expected.accept(ids)
        elif outcome == "reject":
            session.send(MessageReject(transfers))
            expected.reject(ids)
        else:
            session.send(MessageRelease(transfers, set_redelivered=outcome == "mark"))
            expected.release(ids, is_marked=outcome == "mark")

    @rule(number=numbers)
    def select(self, number: int) -> None:
        session, expected = self.both(number)
        if not expected.is_transactional:
            session.call(TxSelect())
            expected.is_transactional = True

    @rule(number=numbers, is_committed=st.booleans())
    def end_transaction(self, number: int, is_committed: bool) -> None:
        session, expected = self.both(number)
        if expected.is_transactional:
            session.send(TxCommit() if is_committed else TxRollback())
            (expected.commit if is_committed else expected.roll_back)()

    @rule(queue=queues)
    def purge(self, queue: str) -> None:
        self.asking.call(QueuePurge(queue))
        self.reference.queues[queue].ready.clear()

    @rule(number=numbers, is_polite=st.booleans(), is_rare=st.integers(0, 3))
    def end(self, number: int, is_polite: bool, is_rare: int) -> None:
        """The session ends, and another begins in its place."""
        if is_rare:
            return
        session, expected = self.both(number)
        if is_polite:
            session.control(SessionDetach(session.name))
        session.client.connection.lose(session.client.now)
        session.client.rest()
        expected.end()
        self.sessions[number], self.reference.sessions[number] = self.attach(number), Session()
        self.received[number] = []

    @invariant()
    def each_has_what_is_due(self) -> None:
        self.asking.client.rest()
        due = {queue.name: self.reference.due(queue) for queue in self.reference.queues.values()}
        came: dict[str, list[bytes]] = {queue: [] for queue in QUEUES}
        for number, (session, expected) in enumerate(zip(self.sessions, self.reference.sessions, strict=True)):
            session.take()
            assert session.exception is None, session.exception
            of_session: dict[str, list[bytes]] = {queue: [] for queue in QUEUES}
            for position, message in session.messages:
                transfer = message.method
                assert isinstance(transfer, MessageTransfer)
                destination = transfer.destination or ""
                queue = expected.subscriptions[destination].queue.name
                expected.delivered(position, destination, message.body, message.delivery_properties.redelivered)
                self.received[number].append(position)
                of_session[queue].append(message.body)
            session.messages = []
            for queue, bodies in of_session.items():
                assert bodies == [each for each in due[queue] if each in bodies], "not in the queue's order"
                came[queue] += bodies
        for queue in QUEUES:
            assert sorted(came[queue]) == sorted(due[queue])
            left = len(self.reference.queues[queue].ready)
            assert self.asking.call(QueueQuery(queue)).message_count == left


class SlicedPrograms(Programs):
    """In turns of very few operations, and no client is to notice."""

    operations = OPERATIONS


def run(programs: type[Programs], examples: int, steps: int = 40) -> None:
    run_state_machine_as_test(
        programs,
        settings=settings(
            max_examples=example_count(examples),
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
        ),
    )


@pytest.mark.parametrize("programs", [Programs, SlicedPrograms])
def test_sessions_do_as_the_reference_does(programs: type[Programs]) -> None:
    run(programs, 30)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("programs", [Programs, SlicedPrograms])
def test_sessions_do_as_the_reference_does_for_long(programs: type[Programs]) -> None:
    run(programs, 4000, steps=80)
