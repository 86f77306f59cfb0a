"""What may be sent on an attached session, and what of it is still to be answered."""

from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from amqproxy.amqp010 import command_stream, session
from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import (
    ExecutionResult,
    ExecutionSync,
    MessageAccept,
    MessageCancel,
    MessageFlow,
    MessageReject,
    MessageRelease,
    MessageStop,
    MessageSubscribe,
    MessageTransfer,
    QueueQuery,
)
from amqproxy.amqp010.connection import Connection
from amqproxy.amqp010.controls import SessionCompleted, SessionKnownCompleted
from amqproxy.amqp010.domains import CreditUnit
from amqproxy.amqp010.errors import ResourceLimitExceeded
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.results import QueueQueryResult
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.session import Session
from amqproxy.amqp010.transaction import TransactionMode
from amqproxy.peer import CLIENT, SERVER, Peer
from tests.amqp010.transcript import by_byte, play, play_in_bursts
from tests.example_count import example_count

ATTACHED = """
>> protocol-header
<< protocol-header
<< connection.start
>> connection.start-ok
<< connection.tune
>> connection.tune-ok
>> connection.open
<< connection.open-ok
>> session.attach name_=s
<< session.attached name_=s
>> session.command-point command_id=0 command_offset=0
<< session.command-point command_id=0 command_offset=0
"""
SUBSCRIBED = (
    ATTACHED
    + """
>> message.subscribe queue=q destination=d accept_mode=0 acquire_mode=0
>> message.set-flow-mode destination=d flow_mode=0
>> message.flow destination=d unit=0 value=3
>> message.flow destination=d unit=1
"""
)
BROWSING = (
    ATTACHED
    + """
>> message.subscribe queue=q destination=d accept_mode=0 acquire_mode=1
>> message.flow destination=d unit=0
>> message.flow destination=d unit=1
<< message.transfer destination=d accept_mode=0 acquire_mode=1 body=x
<< message.transfer destination=d accept_mode=0 acquire_mode=1 body=y
"""
)

TRANSCRIPTS = {
    # --- timeouts and sets
    "a timeout that was not requested": ATTACHED
    + """
        << session.timeout timeout=0
        !! 409 session 2.6 9.2 session.timeout
        """,
    "a timeout longer than was requested": ATTACHED
    + """
        >> session.request-timeout timeout=10
        << session.timeout timeout=11
        !! 531 session 2.6 9.2 session.request-timeout, maximum-granted-timeout
        """,
    "a timeout without end, where one was requested": ATTACHED
    + """
        >> session.request-timeout timeout=10
        << session.timeout
        !! 531 session 2.6 9.2 session.request-timeout, maximum-granted-timeout
        """,
    "timeouts answer requests one to one": ATTACHED
    + """
        >> session.request-timeout
        >> session.request-timeout timeout=5
        << session.request-timeout timeout=0
        << session.timeout timeout=100
        << session.timeout timeout=5
        >> session.timeout timeout=0
        """,
    "expected without a flush": ATTACHED
    + """
        >> session.flush completed=true
        << session.expected commands=0
        !! 409 session 2.8 9.2 session.expected
        """,
    "expected beyond the next": ATTACHED
    + """
        >> session.flush expected=true
        << session.expected commands=0-1
        !! 542 session 2.8 9.2 session.expected
        """,
    "expected and confirmed": ATTACHED
    + """
        >> queue.delete queue=q
        >> session.flush expected=true confirmed=true
        << session.expected commands=1
        << session.confirmed commands=0
        """,
    "confirmed before it was sent": ATTACHED
    + """
        << session.confirmed commands=0
        !! 542 session 2.9 3.2.2
        """,
    "completion, more than once": ATTACHED
    + """
        >> queue.delete queue=q
        >> queue.delete queue=q sync=true
        << session.confirmed commands=0-1
        << session.completed commands=0
        << session.completed commands=0-1 timely_reply=true
        >> session.known-completed commands=0-1
        << session.completed commands=0-1
        """,
    "completion before it was sent": ATTACHED
    + """
        >> queue.delete queue=q
        << session.completed commands=0-1
        !! 542 session 2.10 3.2.3
        """,
    "a range of commands that runs backwards": ATTACHED
    + """
        >> queue.delete queue=q
        >> queue.delete queue=q
        << session.completed commands=1-0
        !! 542 session 2.10 7 sequence-set
        """,
    "known to be complete before it is": ATTACHED
    + """
        >> queue.delete queue=q
        >> session.known-completed commands=0
        !! 409 session 2.11 9.2 session.known-completed
        """,
    "a sync completed before a command before it": ATTACHED
    + """
        >> queue.delete queue=q
        >> execution.sync sync=true
        << session.completed commands=1
        !! 409 session 2.10 10.1 execution.sync
        """,
    "a sync completed with all before it": ATTACHED
    + """
        >> queue.delete queue=q
        >> queue.delete queue=q
        >> execution.sync sync=true
        >> queue.delete queue=q
        << session.completed commands=1
        << session.completed commands=0-2
        """,
    # --- results and exceptions
    "a result": ATTACHED
    + """
        >> queue.query queue=q
        >> exchange.query name_=x
        << execution.result command_id=1 value=exchange.exchange-query-result:
        << execution.result command_id=0 value=queue.queue-query-result:
        << session.completed commands=0-1
        >> session.completed commands=0-1
        """,
    "a result of another command": ATTACHED
    + """
        >> queue.query queue=q
        << execution.result command_id=0 value=exchange.exchange-query-result:
        !! 531 session 3.2 10 queue.query
        """,
    "a result for a command that has none": ATTACHED
    + """
        >> queue.delete queue=q
        << execution.result command_id=0 value=queue.queue-query-result:
        !! 542 session 3.2 3.4.1.2
        """,
    "a second result": ATTACHED
    + """
        >> queue.query queue=q
        << execution.result command_id=0 value=queue.queue-query-result:
        << execution.result command_id=0 value=queue.queue-query-result:
        !! 542 session 3.2 3.4.1.2
        """,
    "a result before the command": ATTACHED
    + """
        << execution.result command_id=0 value=queue.queue-query-result:
        !! 542 session 3.2 3.2.1
        """,
    "a result for nothing": ATTACHED
    + """
        << execution.result value=queue.queue-query-result:
        !! 531 session 3.2 10.1 execution.result
        """,
    "completed without its result": ATTACHED
    + """
        >> queue.query queue=q
        << session.completed commands=0
        !! 409 session 2.10 3.4.1.2
        """,
    "an exception": ATTACHED
    + """
        >> queue.delete queue=q
        >> queue.delete queue=r
        << execution.exception error_code=404 command_id=0 description=none
        >> (queue.delete queue=t)
        << session.completed commands=''
        << session.request-timeout timeout=0
        << session.detach name_=s
        >> session.detached name_=s code=0
        """,
    "a command after one's own exception": ATTACHED
    + """
        << execution.exception error_code=541
        << execution.sync
        !! 409 session 3.1 3.4.1.3
        """,
    "an exception about a command that was not sent": ATTACHED
    + """
        << execution.exception error_code=404 command_id=0
        !! 542 session 3.3 3.2.1
        """,
    "a command of the other peer": ATTACHED
    + """
        << queue.delete queue=q
        !! 530 session 8.2 10 queue.delete
        """,
    # --- transfers
    "publishes are accepted or rejected by the server": ATTACHED
    + """
        >> message.transfer destination=x body=one
        >> message.transfer destination=x body=two accept_mode=1
        >> message.transfer destination=x body=three
        << message.accept transfers=0
        << message.reject transfers=2 code=1
        << session.completed commands=0-2
        << message.accept transfers=1
        !! 542 session 4.2 10.2 message.accept
        """,
    "an accept of what was not sent": ATTACHED
    + """
        << message.accept transfers=0
        !! 542 session 4.2 3.2.1
        """,
    "credit runs out": SUBSCRIBED
    + """
        << message.transfer destination=d body=1
        << message.transfer destination=d body=2
        >> message.accept transfers=0
        >> session.completed commands=0
        << message.transfer destination=d body=3
        << message.transfer destination=d body=4
        !! 530 session 4.1 10.2 message.set-flow-mode, byte-accounting
        """,
    "a window moves with completion": ATTACHED
    + """
        >> message.subscribe queue=q destination=d
        >> message.flow destination=d unit=0 value=2
        >> message.flow destination=d unit=1 value=10
        << message.transfer destination=d body=12345
        << message.transfer destination=d body=12345
        >> session.completed commands=0
        << message.transfer destination=d body=1234
        >> message.accept transfers=0-2
        << message.transfer destination=d
        !! 530 session 4.1 10.2 message.set-flow-mode, byte-accounting
        """,
    "a header counts, too; of a message in fragments only the first needs credit for a message": ATTACHED
    + """
        >> message.subscribe queue=q destination=d
        >> message.flow destination=d unit=0 value=1
        >> message.flow destination=d unit=1 value=30
        << message.transfer destination=d fragment=first body=12345
        << message.transfer destination=d fragment=last body=12345
        << message.transfer destination=d fragment=last body=12345
        !! 530 session 4.1 10.2 message.set-flow-mode, byte-accounting
        """,
    "a stop": SUBSCRIBED
    + """
        >> message.stop destination=d
        << message.transfer destination=d body=1
        << session.completed commands=0-4
        << message.transfer destination=d body=2
        !! 530 session 4.1 10.2 message.set-flow-mode, byte-accounting
        """,
    "a flush, after which the mode may change": SUBSCRIBED
    + """
        >> message.flush destination=d
        << message.transfer destination=d body=1
        << session.completed commands=0-4
        >> message.set-flow-mode destination=d flow_mode=1
        """,
    "a change of mode while there is credit": SUBSCRIBED
    + """
        >> message.set-flow-mode destination=d flow_mode=1
        !! 409 session 4.9 10.2 message.set-flow-mode, mode-switching
        """,
    "credit for no subscription": ATTACHED
    + """
        >> message.flow destination=d unit=0 value=1
        !! 404 session 4.10 10.2 message.flow
        """,
    "the server limits a client, and lifts that": ATTACHED
    + """
        << message.set-flow-mode destination=x flow_mode=0
        >> message.transfer destination=x body=1
        << message.flow destination=x unit=0 value=1
        << message.flow destination=x unit=1
        >> session.completed commands=0-2
        >> message.transfer destination=x body=2
        >> message.transfer destination=y body=2
        << message.flow destination=x unit=0
        >> message.transfer destination=x body=3
        << message.stop destination=x
        >> message.transfer destination=x body=4
        >> session.completed commands=0-4
        >> message.transfer destination=x body=5
        !! 530 session 4.1 10.2 message.set-flow-mode, byte-accounting
        """,
    "a transfer to no subscription": ATTACHED
    + """
        << message.transfer destination=d body=1
        !! 404 session 4.1 10.2 message.transfer
        """,
    "a transfer in another mode than subscribed": SUBSCRIBED
    + """
        << message.transfer destination=d accept_mode=1 body=1
        !! 531 session 4.1 10.2 message.subscribe
        """,
    "a second subscription of the same name": SUBSCRIBED
    + """
        >> message.subscribe queue=r destination=d
        !! 530 session 4.7 10.2 message.subscribe, unique-subscriber-destination
        """,
    "messages may come until a cancel is complete, and be settled after it": SUBSCRIBED
    + """
        >> message.cancel destination=d
        << message.transfer destination=d body=1
        << session.completed commands=0-4
        >> message.accept transfers=0
        << message.transfer destination=d body=2
        !! 404 session 4.1 10.2 message.transfer
        """,
    "a new subscription with the name of one that is cancelled": SUBSCRIBED
    + """
        >> message.cancel destination=d
        >> message.subscribe queue=r destination=d accept_mode=1
        >> message.flow destination=d unit=0 value=1
        >> message.flow destination=d unit=1
        << message.transfer destination=d body=1
        << session.completed commands=0-5
        << message.transfer destination=d accept_mode=1 body=2
        << message.transfer destination=d accept_mode=1 body=3
        !! 530 session 4.1 10.2 message.set-flow-mode, byte-accounting
        """,
    "a cancel of nothing": ATTACHED
    + """
        >> message.cancel destination=d
        !! 404 session 4.8 10.2 message.cancel, subscription-not-found
        """,
    "a second cancel": SUBSCRIBED
    + """
        >> message.cancel destination=d
        >> message.cancel destination=d
        !! 404 session 4.8 10.2 message.cancel, subscription-not-found
        """,
    "browsing: acquire, then accept": BROWSING
    + """
        >> message.acquire transfers=0-1
        << execution.result command_id=3 value=acquired:0
        >> message.accept transfers=0
        >> message.release transfers=1
        """,
    "browsing: accept without acquiring": BROWSING
    + """
        >> message.accept transfers=0
        !! 409 session 4.2 10.2 message.accept, acquisition
        """,
    "browsing: a reject is ignored": BROWSING
    + """
        >> message.reject transfers=0 code=0
        >> message.release transfers=0
        """,
    "browsing: acquired more than there was": BROWSING
    + """
        >> message.acquire transfers=0-1
        >> message.release transfers=1
        << execution.result command_id=3 value=acquired:0-1
        !! 542 session 3.2 10.2 message.acquire, one-to-one
        """,
    "acquiring what need not be accepted, as qpid-python did": ATTACHED
    + """
        >> message.subscribe queue=q destination=d accept_mode=1 acquire_mode=1
        >> message.flow destination=d unit=0
        >> message.flow destination=d unit=1
        << message.transfer destination=d accept_mode=1 acquire_mode=1 body=x
        >> message.acquire transfers=0
        !! 542 session 4.5 10.2 message.acquire
        """,
    "a transfer is resumed": ATTACHED
    + """
        >> message.resume destination=x resume_id=r
        << execution.result command_id=0 value=message.message-resume-result:
        << session.completed commands=0
        >> message.transfer destination=x fragment=last body=rest
        """,
    # --- transactions
    "tx: a rollback takes accepts back": SUBSCRIBED
    + """
        >> tx.select
        << message.transfer destination=d body=1
        << message.transfer destination=d body=2
        >> message.accept transfers=0
        >> tx.commit
        >> message.accept transfers=1
        >> tx.rollback
        >> message.release transfers=1 set_redelivered=true
        << session.completed commands=0-9
        >> message.release transfers=0
        !! 542 session 4.4 10.2 message.release
        """,
    "tx: a commit completed before a publish": ATTACHED
    + """
        >> tx.select
        >> message.transfer destination=x body=1
        >> tx.commit
        << session.completed commands=0,2
        !! 409 session 2.10 10.3 tx.commit
        """,
    "tx: commit without select": ATTACHED
    + """
        >> tx.commit
        !! 409 session 5.2 10.3 tx.commit, select-required
        """,
    "tx: a subscription without accept": ATTACHED
    + """
        >> tx.select
        >> message.subscribe queue=q destination=d accept_mode=1
        !! 530 session 4.7 10.3 tx.select, explicit-accepts
        """,
    "tx: select beside a subscription without accept": ATTACHED
    + """
        >> message.subscribe queue=q destination=d accept_mode=1
        >> tx.select
        !! 530 session 5.1 10.3 tx.select, explicit-accepts
        """,
    "tx: select after such a subscription": ATTACHED
    + """
        >> message.subscribe queue=q destination=d accept_mode=1
        >> message.cancel destination=d
        >> tx.select
        """,
    "dtx: two phases": ATTACHED
    + """
        >> dtx.select
        >> dtx.start xid=a
        << execution.result command_id=1 value=xa:0
        >> message.transfer destination=x body=1
        >> dtx.end xid=a
        << execution.result command_id=3 value=xa:0
        >> dtx.prepare xid=a
        << execution.result command_id=4 value=xa:0
        >> dtx.commit xid=a
        << execution.result command_id=5 value=xa:0
        << session.completed commands=0-5
        """,
    "dtx: a branch that could not be started": ATTACHED
    + """
        >> dtx.select
        >> dtx.start xid=a
        << execution.result command_id=1 value=xa:2
        >> dtx.end xid=a
        !! 409 session 6.3 10.4 dtx.end, not-associated
        """,
    "dtx: join and resume": ATTACHED
    + """
        >> dtx.select
        >> dtx.start xid=a join=true resume=true
        !! 530 session 6.2 10.4 dtx.start, join-and-resume
        """,
    "dtx: a commit while work goes on": ATTACHED
    + """
        >> dtx.select
        >> dtx.start xid=a
        >> dtx.commit xid=a one_phase=true
        !! 409 session 6.4 10.4 dtx.commit, not-disassociated
        """,
}


@pytest.mark.parametrize("transcript", TRANSCRIPTS.values(), ids=TRANSCRIPTS)
class TestTranscripts:
    def test_line_by_line(self, transcript: str) -> None:
        play(transcript)

    def test_in_bursts(self, transcript: str) -> None:
        play_in_bursts(transcript)

    def test_byte_by_byte(self, transcript: str) -> None:
        play_in_bursts(transcript, by_byte)


def session_of(transcript: str) -> Session:
    found = play(transcript).channels[0].session
    assert found is not None
    return found


def test_what_is_known_of_a_session() -> None:
    found = session_of(
        SUBSCRIBED
        + """
        >> session.request-timeout timeout=60
        << session.timeout timeout=30
        >> tx.select
        >> queue.query queue=q sync=true
        << session.completed commands=0-2
        << session.confirmed commands=4
        << message.transfer destination=d body=1
        """
    )
    assert (found.name, found.timeout, found.transaction.mode) == (b"s", 30, TransactionMode.TX)
    stream = found.streams[CLIENT]
    assert [list(each) for each in (stream.incomplete, stream.completed, stream.confirmed, stream.awaited)] == [
        [range(3, 6)],
        [range(3)],
        [range(4, 5)],
        [range(5, 6)],
    ]
    assert list(stream.unanswered) == [5]
    assert list(found.transfers[SERVER].acquired) == [range(1)]
    assert found.subscriptions["d"].credit.messages == 2
    assert found.failed_by is None


@pytest.mark.parametrize(
    ("module", "limit", "lines"),
    [
        (session, "MAX_REQUESTS", ">> session.request-timeout"),
        (session, "MAX_REQUESTS", ">> session.flush expected=true"),
        (session, "MAX_REQUESTS", ">> message.subscribe queue=q destination=d\n>> message.cancel destination=d"),
        (session, "MAX_DESTINATIONS", ">> message.subscribe queue=q destination={number}"),
        (session, "MAX_DESTINATIONS", "<< message.flow destination={number} unit=0 value=1"),
        (command_stream, "MAX_UNANSWERED", ">> queue.query queue=q"),
        (command_stream, "MAX_UNANSWERED", ">> execution.sync"),
        (
            command_stream,
            "MAX_RANGES",
            ">> queue.delete queue=q\n>> queue.delete queue=q\n<< session.completed commands={odd}",
        ),
    ],
)
def test_what_is_kept_is_bounded(module: object, limit: str, lines: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, limit, 3)
    repeated = "".join(lines.format(number=number, odd=2 * number + 1) + "\n" for number in range(6))
    with pytest.raises(ResourceLimitExceeded):
        play(ATTACHED + repeated, Connection(deviations=[]))


class PeersThatKeepToTheRules(RuleBasedStateMachine):
    """Two peers that each know of the other's frames some time after they passed, and break no rule, are not blamed."""

    def __init__(self) -> None:
        super().__init__()
        self.connection = play(ATTACHED)
        self.sent = dict.fromkeys(Peer, 0)
        self.on_their_way: dict[Peer, deque[tuple[int, Method]]] = {peer: deque() for peer in Peer}
        # Of each peer: what it has received and not completed, and the queries and messages that it has to settle.
        self.received: dict[Peer, list[int]] = {peer: [] for peer in Peer}
        self.complete: dict[Peer, set[int]] = {peer: set() for peer in Peer}
        self.queries: list[int] = []
        self.messages: list[int] = []
        self.publishes: list[int] = []
        self.credit = 0
        self.destination = 0
        self.is_subscribed = False
        self.server_has = ""

    def _send(self, sender: Peer, method: Method, body: bytes | None = None) -> None:
        self.connection.send(sender, Assembly(0, method, None, body))
        position = self.sent[sender]
        if method.segment:
            self.sent[sender] += 1
        self.on_their_way[sender].append((position, method))

    @initialize()
    def begin(self) -> None:
        self._send(CLIENT, QueueQuery(queue="q"))

    @rule(sync=st.booleans(), accept_mode=st.integers(0, 1), body=st.binary(max_size=9000))
    def publish(self, sync: bool, accept_mode: int, body: bytes) -> None:
        self._send(CLIENT, MessageTransfer(destination="x", accept_mode=accept_mode, acquire_mode=0, sync=sync), body)

    @rule()
    def query(self) -> None:
        self._send(CLIENT, QueueQuery(queue="q"))

    @rule(sender=st.sampled_from(Peer))
    def sync(self, sender: Peer) -> None:
        self._send(sender, ExecutionSync(sync=True))

    @precondition(lambda self: not self.is_subscribed)
    @rule()
    def subscribe(self) -> None:
        self.destination += 1
        self.is_subscribed = True
        name = str(self.destination)
        self._send(CLIENT, MessageSubscribe(queue="q", destination=name, accept_mode=0, acquire_mode=0))
        self._send(CLIENT, MessageFlow(destination=name, unit=CreditUnit.BYTE, value=None))

    @precondition(lambda self: self.is_subscribed)
    @rule(count=st.integers(0, 3))
    def flow(self, count: int) -> None:
        self._send(CLIENT, MessageFlow(destination=str(self.destination), unit=CreditUnit.MESSAGE, value=count))

    @precondition(lambda self: self.is_subscribed)
    @rule()
    def stop(self) -> None:
        self._send(CLIENT, MessageStop(destination=str(self.destination)))

    @precondition(lambda self: self.is_subscribed)
    @rule()
    def cancel(self) -> None:
        self.is_subscribed = False
        self._send(CLIENT, MessageCancel(destination=str(self.destination)))

    @precondition(lambda self: self.credit and self.server_has)
    @rule(body=st.binary(max_size=100))
    def deliver(self, body: bytes) -> None:
        self.credit -= 1
        self._send(SERVER, MessageTransfer(destination=self.server_has, accept_mode=0, acquire_mode=0), body)

    @precondition(lambda self: self.messages)
    @rule(how=st.sampled_from([MessageAccept, MessageRelease, MessageReject]), count=st.integers(1, 3))
    def settle(self, how: type[Method], count: int) -> None:
        settled, self.messages = self.messages[:count], self.messages[count:]
        self._send(CLIENT, how(transfers=SequenceSet.of(settled)))  # type: ignore[call-arg]

    @precondition(lambda self: self.publishes)
    @rule()
    def confirm(self) -> None:
        self._send(SERVER, MessageAccept(transfers=SequenceSet.of(self.publishes)))
        self.publishes = []

    @precondition(lambda self: self.queries)
    @rule()
    def answer(self) -> None:
        self._send(SERVER, ExecutionResult(command_id=self.queries.pop(), value=QueueQueryResult()))

    @rule(receiver=st.sampled_from(Peer), keeps=st.booleans())
    def completed(self, receiver: Peer, keeps: bool) -> None:
        done = [each for each in self.received[receiver] if receiver is CLIENT or each not in self.queries]
        if keeps and done and self.queries:
            done = [each for each in done if each < min(self.queries)]
        barred = min(set(self.received[receiver]) - set(done), default=1 << 31)
        done = [each for each in done if each < barred]  # a sync waits for all before it
        self.received[receiver] = [each for each in self.received[receiver] if each not in done]
        self.complete[receiver] |= set(done)
        self._send(receiver, SessionCompleted(commands=SequenceSet.of(self.complete[receiver])))

    @precondition(lambda self: any(self.on_their_way.values()))
    @rule(sender=st.sampled_from(Peer), count=st.integers(1, 5))
    def arrive(self, sender: Peer, count: int) -> None:
        for _ in range(min(count, len(self.on_their_way[sender]))):
            self._arrive(sender, *self.on_their_way[sender].popleft())

    def _arrive(self, sender: Peer, position: int, method: Method) -> None:
        receiver = sender.other
        if method.segment:
            self.received[receiver].append(position)
        match method:
            case SessionCompleted() if method.commands:
                self._send(receiver, SessionKnownCompleted(commands=method.commands))
            case SessionKnownCompleted():
                self.complete[receiver] -= set(method.commands or ())
            case QueueQuery():
                self.queries.append(position)
            case MessageTransfer() if sender is SERVER:
                self.messages.append(position)
            case MessageTransfer() if method.accept_mode == 0:
                self.publishes.append(position)
            case MessageSubscribe():
                self.server_has, self.credit = method.destination or "", 0
            case MessageFlow() if method.unit == CreditUnit.MESSAGE and method.destination == self.server_has:
                self.credit += method.value or 0
            case MessageStop() if method.destination == self.server_has:
                self.credit = 0
            case MessageCancel():
                self.server_has = ""


TestPeersThatKeepToTheRules = PeersThatKeepToTheRules.TestCase
TestPeersThatKeepToTheRules.settings = settings(deadline=None, max_examples=example_count(60), stateful_step_count=40)
