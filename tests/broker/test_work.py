"""What a turn may do, and what it leaves to later ones: by operations, never by the clock on the wall."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

from amqproxy.amqp091.frame import encode_frame, encode_method
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicRecover,
    ChannelClose,
    ConfirmSelect,
    ExchangeDeclare,
    ExchangeDelete,
    Method,
    QueueDeclare,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    TxCommit,
    TxRollback,
    TxSelect,
)
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.amqp091.wire import Table
from amqproxy.broker.broker import Broker
from amqproxy.broker.queues.backlog import NEVER, Backlog
from amqproxy.broker.queues.consumer import QueueEntry
from amqproxy.broker.queues.policies import make_policy
from amqproxy.broker.vhost import VirtualHost
from amqproxy.broker.work import Job, Quantum, Steps, WorkQueue
from tests.broker.client import Client, connected, noted
from tests.broker.disk import Memory
from tests.broker.yard import message

COUNT = 1000
STEP = 20
OVERSHOOT = 100
"""What one operation may cost beyond what is left: a message for several queues, a queue with all that hangs on it."""


# --- quanta


def test_a_turn_without_a_clock_ends_by_operations() -> None:
    quantum = Quantum()
    assert not quantum.is_over()
    quantum.limit(3)
    for left in (2, 1):
        quantum.left -= 1
        assert (quantum.left, quantum.is_over()) == (left, False)
    quantum.left -= 1
    assert quantum.is_over()
    quantum.begin()
    assert not quantum.is_over()


def test_a_turn_with_a_clock_looks_at_it_every_few_operations() -> None:
    looks = []

    def clock() -> float:
        looks.append(None)
        return len(looks) * 1.0

    quantum = Quantum()
    quantum.limit(10, 3.5, clock)
    looks.clear()
    quantum.begin()
    done = 0
    while not quantum.is_over():
        quantum.left -= 1
        done += 1
    assert (done, len(looks)) == (40, 5)


def test_turns_in_one_last_until_something_has_to_hasten() -> None:
    times = iter(range(1000))
    quantum = Quantum()
    quantum.limit(1, 10.0, lambda: float(next(times)))
    for hastens, looks in ((False, 30), (True, 10)):
        quantum.begin(3)
        if hastens:
            quantum.hasten()
        done = 0
        while not quantum.is_over():
            quantum.left -= 1
            done += 1
        assert done == looks


# --- work


def counted(done: list[str], name: str, times: int) -> Job:
    for _ in range(times):
        done.append(name)
        yield


def test_each_has_its_turn() -> None:
    work, done = WorkQueue(), list[str]()
    work.quantum.limit(1)
    woken: list[None] = []
    work.wake = lambda: woken.append(None)
    work.do(counted(done, "a", 3), 0.0)
    work.do(counted(done, "b", 1), 0.0)
    assert (done, len(work), len(woken)) == (["a", "b"], 2, 1)
    while work:
        work.go_on(0.0)
    assert done == ["a", "b", "a", "a"]


def test_all_that_is_of_one_owner_has_one_place_in_the_line() -> None:
    work, done = WorkQueue(), list[str]()
    left = dict.fromkeys("abcd", 2)

    def part(name: str) -> Callable[[float], bool]:
        def do(now: float) -> bool:
            done.append(name)
            left[name] -= 1
            return left[name] > 0

        return do

    for name in "abc":
        work.add_of("owner", part(name))
    work.add(part("d"))
    assert len(work) == 2
    for _ in range(2):
        work.go_on(0.0)
    assert done == ["a", "d", "b", "d"]
    while work:
        work.go_on(0.0)
    assert done == [*"adbd", *"cabc"]


def test_what_fails_of_one_owner_leaves_the_rest() -> None:
    work, failures, done = WorkQueue(), list[Exception](), list[float]()
    work.failed = failures.append
    work.add_of("owner", lambda now: 1 / 0 > 1)
    work.add_of("owner", lambda now: bool(done.append(now)))
    while work:
        work.go_on(5.0)
    assert ([type(each) for each in failures], done) == ([ZeroDivisionError], [5.0])


def test_what_fits_into_a_turn_is_done_at_once() -> None:
    work, done = WorkQueue(), list[float]()

    def job() -> Generator[None, float, None]:
        done.append(0.0)
        return
        yield

    work.do(job(), 0.0)
    assert (done, len(work)) == ([0.0], 0)


def test_a_job_is_given_the_time() -> None:
    times = []

    def job() -> Generator[None, float, None]:
        times.append((yield))
        times.append((yield))

    steps = Steps(job())
    assert [steps.go_on(now) for now in (1.0, 2.0, 3.0)] == [True, True, False]
    assert times == [2.0, 3.0]


def test_one_that_fails_ends_itself_only() -> None:
    work, done = WorkQueue(), list[str]()
    failures: list[Exception] = []
    work.failed = failures.append

    def fails(now: float) -> bool:
        raise RuntimeError("on purpose")

    work.add(fails)
    work.add(Steps(counted(done, "a", 2)).go_on)
    while work:
        work.go_on(0.0)
    assert (done, [str(failure) for failure in failures]) == (["a", "a"], ["on purpose"])


def test_what_is_not_wanted_any_more_is_freed_a_turn_at_a_time() -> None:
    work = WorkQueue()
    work.quantum.limit(100)
    containers: list[Any] = [list(range(1000)), dict.fromkeys(range(500)), set(range(300)), [1, 2]]
    for container in containers:
        work.free(container)
    turns = 0
    while work:
        before = sum(map(len, containers))
        work.go_on(0.0)
        assert before - sum(map(len, containers)) <= 100
        turns += 1
    assert (turns, [len(each) for each in containers]) == (19, [0, 0, 0, 2])


# --- what clients ask for

PING = encode_method(1, BasicGet(queue="other", no_ack=True))
DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


class Crowd:
    """One client that asks for very much, and another, at a broker whose turns are short once `limit` is called."""

    def __init__(self) -> None:
        self.broker = Broker()
        self.greedy = connected(self.broker)
        self.other = connected(self.broker)
        self.other.declare("other")
        self.turns = 0

    @property
    def vhost(self) -> VirtualHost:
        return self.broker.vhosts["/"]

    def fill(self, count: int = COUNT, **arguments: Any) -> None:
        self.greedy.declare("dead")
        self.greedy.declare("q", durable=True, arguments=arguments)
        for number in range(count):
            self.greedy.send(1, BasicPublish(routing_key="q"), b"%d" % number)

    def hold(self, count: int = COUNT, **arguments: Any) -> None:
        """Let the greedy client hold so many messages."""
        self.fill(count, **arguments)
        for _ in range(count):
            self.greedy.send(1, BasicGet(queue="q"))
        self.greedy.receive()

    def limit(self) -> None:
        self.broker.work.quantum.limit(STEP)

    def send(self, *methods: Method) -> None:
        """The greedy client sends these in one write."""
        self.broker.work.quantum.begin()
        self.greedy.connection.feed(b"".join(encode_method(1, method) for method in methods), self.greedy.now)

    def depth(self, queue: str) -> int:
        return self.vhost.queues[queue].message_count

    def rest(self) -> None:
        """Let all be done, a turn at a time: none does too much, and the other client is served between any two."""
        quantum, output = self.broker.work.quantum, self.other.connection.output
        while self.broker.work:
            self.broker.work.go_on(self.greedy.now)
            assert quantum.left >= -OVERSHOOT, "too much for one turn"
            self.turns += 1
            quantum.begin()
            self.other.connection.feed(PING, self.other.now)
            assert output.waiting, "the other client has to wait"
            self.other.connection.take_output()
            self.other.connection.sent(self.other.now)


@pytest.fixture
def crowd() -> Crowd:
    return Crowd()


def expire(crowd: Crowd) -> int:
    crowd.fill(**DEAD, **{"x-message-ttl": 1000})
    crowd.limit()
    crowd.greedy.now = crowd.other.now = 1002.0
    crowd.broker.tick(1002.0)
    return crowd.depth("dead")


def reject(crowd: Crowd) -> int:
    crowd.hold(**DEAD)
    crowd.limit()
    crowd.send(BasicNack(0, True, False))
    return crowd.depth("dead")


def requeue(crowd: Crowd) -> int:
    crowd.hold()
    crowd.limit()
    crowd.send(BasicNack(COUNT, True, True))
    return crowd.depth("q")


def recover(crowd: Crowd) -> int:
    crowd.hold()
    crowd.limit()
    crowd.send(BasicRecover(True))
    return crowd.depth("q")


def close_channel(crowd: Crowd) -> int:
    crowd.hold()
    crowd.limit()
    crowd.send(ChannelClose(200, "bye"))
    return crowd.depth("q")


def hang_up(crowd: Crowd) -> int:
    crowd.hold()
    crowd.limit()
    crowd.broker.work.quantum.begin()
    crowd.greedy.connection.lose(crowd.greedy.now)
    return crowd.depth("q")


def return_to_a_quorum_queue(crowd: Crowd) -> int:
    crowd.hold(**{"x-queue-type": "quorum"})
    crowd.limit()
    crowd.send(BasicNack(0, True, True))
    return crowd.depth("q")


def reach_the_delivery_limit(crowd: Crowd) -> int:
    crowd.hold(**DEAD, **{"x-queue-type": "quorum", "x-delivery-limit": 0})
    crowd.limit()
    crowd.send(BasicNack(0, True, True))
    return crowd.depth("dead")


def lower_the_limit(crowd: Crowd) -> int:
    crowd.fill(**DEAD)
    crowd.limit()
    crowd.vhost.set_policy(make_policy("p", "^q$", {"max-length": 0}), crowd.greedy.now)
    return crowd.depth("dead")


def commit(crowd: Crowd) -> int:
    crowd.greedy.declare("q")
    crowd.greedy.ask(TxSelect())
    for number in range(COUNT):
        crowd.greedy.send(1, BasicPublish(routing_key="q"), b"%d" % number)
    crowd.limit()
    crowd.send(TxCommit())
    return crowd.depth("q")


def roll_back(crowd: Crowd) -> int:
    """What was acked one by one, and before that some that are old by now."""
    crowd.hold()
    crowd.greedy.ask(TxSelect())
    for tag in range(COUNT, 0, -1):
        crowd.greedy.send(1, BasicAck(tag))
    unacked = crowd.greedy.connection.channels[1].deliveries.unacked
    unacked.add(2 * COUNT, QueueEntry(crowd.vhost.queues["q"], message(), 0, NEVER))  # and so those are old
    crowd.limit()
    crowd.send(TxRollback())
    return len(unacked)


def hang_up_in_a_transaction(crowd: Crowd) -> int:
    crowd.hold()
    crowd.greedy.ask(TxSelect())
    crowd.greedy.send(1, BasicAck(0, True))
    crowd.limit()
    crowd.broker.work.quantum.begin()
    crowd.greedy.connection.lose(crowd.greedy.now)
    return crowd.depth("q")


def roll_back_publishes(crowd: Crowd) -> int:
    crowd.greedy.ask(TxSelect())
    for number in range(COUNT):
        crowd.greedy.send(1, BasicPublish(routing_key="other"), b"%d" % number)
    crowd.limit()
    crowd.send(TxRollback())
    return 0


def publish_in_one_write(crowd: Crowd) -> int:
    crowd.greedy.declare("q")
    crowd.limit()
    crowd.broker.work.quantum.begin()
    header = encode_frame(2, 1, ContentHeader(0, Properties()).encode())
    data = (encode_method(1, BasicPublish(routing_key="q")) + header) * COUNT
    crowd.greedy.connection.feed(data, crowd.greedy.now)
    return crowd.depth("q")


def fan_out(crowd: Crowd) -> int:
    for number in range(COUNT):
        crowd.greedy.declare(f"q{number}")
        crowd.greedy.bind(f"q{number}", "amq.fanout")
    crowd.limit()
    crowd.broker.work.quantum.begin()
    crowd.greedy.send(1, BasicPublish(exchange="amq.fanout"))
    return sum(crowd.depth(f"q{number}") for number in range(COUNT))


def declare_in_one_write(crowd: Crowd) -> int:
    crowd.limit()
    crowd.send(*(QueueDeclare(queue=f"q{number}") for number in range(COUNT)))
    return len(crowd.vhost.queues) - 1


def lose_exclusive_queues(crowd: Crowd) -> int:
    for number in range(COUNT):
        crowd.greedy.declare(f"q{number}", exclusive=True)
    crowd.limit()
    crowd.broker.work.quantum.begin()
    crowd.greedy.connection.lose(crowd.greedy.now)
    return COUNT + 1 - len(crowd.vhost.queues)


def delete_what_is_bound(crowd: Crowd) -> int:
    crowd.greedy.declare("q")
    for number in range(COUNT):
        crowd.greedy.bind("q", "amq.topic", f"k{number}")
    crowd.limit()
    crowd.send(QueueDelete(queue="q"))
    assert not crowd.greedy.connection.output.waiting
    assert (
        crowd.vhost.router.route(crowd.vhost.exchange("amq.topic"), message(key=f"k{COUNT - 1}"), 1000.0).queues == ()
    )
    return COUNT - len(crowd.vhost.exchange("amq.topic").bindings)


def delete_an_exchange(crowd: Crowd) -> int:
    crowd.greedy.declare("q")
    crowd.greedy.ask(ExchangeDeclare(exchange="x", type="headers"))
    for number in range(COUNT):
        crowd.greedy.bind("q", "x", a=number)
    crowd.limit()
    exchange = crowd.vhost.exchange("x")
    crowd.send(ExchangeDelete(exchange="x"))
    return COUNT - len(exchange.bindings)


def end_consumers(crowd: Crowd) -> int:
    crowd.greedy.declare("q", arguments={"x-single-active-consumer": True})
    for number in range(COUNT):
        crowd.greedy.ask(BasicConsume(queue="q", consumer_tag=f"c{number}"))
    crowd.limit()
    crowd.send(ChannelClose(200, "bye"))
    return COUNT - len(crowd.vhost.queues["q"].consumers)


def delete_what_is_consumed(crowd: Crowd) -> int:
    """By another client than the consumer."""
    consume_very_often(crowd)
    crowd.vhost.delete_queue("q", None)
    return COUNT - len(crowd.greedy.connection.channels[1].deliveries.consumers)


def ack_where_very_many_share_a_prefetch(crowd: Crowd) -> int:
    """Each ack has all consumers looked at."""
    crowd.fill()
    crowd.greedy.ask(BasicQos(prefetch_count=COUNT, global_=True))
    for number in range(COUNT):
        crowd.greedy.send(1, BasicConsume(queue="q", consumer_tag=f"c{number}"))
    crowd.greedy.receive()
    crowd.limit()
    crowd.send(*(BasicAck(tag) for tag in range(1, 101)))
    return 5 * (COUNT - crowd.greedy.connection.channels[1].deliveries.held)


def hand_out(crowd: Crowd) -> int:
    crowd.fill()
    crowd.limit()
    crowd.send(BasicConsume(queue="q", consumer_tag="c"))
    return COUNT - crowd.depth("q")


def read_a_stream(crowd: Crowd) -> int:
    crowd.greedy.declare("q", durable=True, arguments={"x-queue-type": "stream"})
    for number in range(COUNT):
        crowd.greedy.send(1, BasicPublish(routing_key="q"), b"%d" % number)
    crowd.greedy.ask(BasicQos(prefetch_count=COUNT))
    crowd.limit()
    crowd.send(BasicConsume(queue="q", consumer_tag="c", arguments=Table({"x-stream-offset": "first"})))
    return crowd.greedy.connection.channels[1].deliveries.last_tag


def delete_a_virtual_host(crowd: Crowd) -> int:
    vhost = crowd.broker.add_vhost("v")
    for number in range(COUNT):
        vhost.declare_queue(
            f"q{number}", None, durable=True, exclusive=False, auto_delete=False, arguments=Table(), now=1000.0
        )
    crowd.limit()
    crowd.broker.work.quantum.begin()
    crowd.broker.delete_vhost("v", crowd.greedy.now)
    return COUNT - len(vhost.queues)


def crowded(crowd: Crowd) -> list[Client]:
    return [connected(crowd.broker) for _ in range(COUNT // 10)]


def close_connections(crowd: Crowd) -> int:
    clients = crowded(crowd)
    crowd.broker.connections.pop(crowd.other.connection)
    crowd.limit()
    crowd.broker.work.quantum.begin()
    crowd.broker.close_connections("for a reason", crowd.greedy.now)
    return sum(bool(client.connection.output.waiting) for client in clients)


def end_what_is_overdue(crowd: Crowd) -> int:
    clients = crowded(crowd)
    crowd.fill(len(clients))
    for client in clients:
        client.send(1, BasicGet(queue="q"))
        client.receive()
    crowd.broker.tick(crowd.greedy.now)
    crowd.limit()
    crowd.broker.work.quantum.begin()
    crowd.greedy.now = crowd.other.now = 5000.0
    crowd.broker.tick(crowd.greedy.now)
    return sum(bool(client.connection.output.waiting) for client in clients)


def find_what_to_page(crowd: Crowd) -> int:
    for number in range(COUNT):
        crowd.greedy.declare(f"q{number}")
    crowd.broker.paging.page_store = Memory()
    crowd.broker.paging.threshold = 100
    crowd.limit()
    crowd.broker.work.quantum.begin()
    crowd.broker.check_limits(crowd.greedy.now, memory=200)
    return -crowd.broker.work.quantum.left


def find_out_whether_memory_is_short(crowd: Crowd) -> int:
    for number in range(COUNT):
        crowd.greedy.declare(f"q{number}")
    crowd.broker.memory_limit = 100
    crowd.limit()
    crowd.broker.work.quantum.begin()
    crowd.broker.check_limits(crowd.greedy.now, memory=200, base=0)
    assert not crowd.broker.alarms
    return -crowd.broker.work.quantum.left


def page_out_what_is_held(crowd: Crowd) -> int:
    hold_messages(crowd)
    return find_what_to_page(crowd)


def apply_a_policy(crowd: Crowd) -> int:
    for number in range(COUNT):
        crowd.greedy.declare(f"q{number}")
    crowd.limit()
    crowd.vhost.set_policy(make_policy("p", "^q", {"max-length": 7}), crowd.greedy.now)
    return sum(queue.settings.max_length == 7 for queue in crowd.vhost.queues.values())


def drop_what_is_held(crowd: Crowd) -> int:
    hold_messages(crowd)
    holds = crowd.vhost.delayed._exchanges[crowd.vhost.exchange("late")].heap
    crowd.limit()
    crowd.send(ExchangeDelete(exchange="late"))
    return COUNT - len(holds)


def hold_messages(crowd: Crowd) -> None:
    crowd.greedy.declare("q")
    arguments = Table({"x-delayed-type": "fanout"})
    crowd.greedy.ask(ExchangeDeclare(exchange="late", type="x-delayed-message", arguments=arguments))
    crowd.greedy.bind("q", "late")
    for _ in range(COUNT):
        crowd.greedy.publish("late", "", headers={"x-delay": 1000})


def let_held_messages_go(crowd: Crowd) -> int:
    hold_messages(crowd)
    crowd.limit()
    crowd.broker.work.quantum.begin()
    crowd.greedy.now = crowd.other.now = 1002.0
    while crowd.broker.next_deadline() <= 1002.0:
        crowd.broker.work.quantum.begin()
        before = crowd.depth("q")
        crowd.broker.tick(1002.0)
        assert crowd.depth("q") - before <= STEP
        crowd.turns += 1
    return 1


EVENTS: dict[Callable[[Crowd], int], int] = {
    expire: 200,
    reject: 100,
    requeue: 30,
    recover: 30,
    close_channel: 30,
    hang_up: 30,
    return_to_a_quorum_queue: 30,
    reach_the_delivery_limit: 100,
    lower_the_limit: 200,
    commit: 30,
    roll_back: 80,
    roll_back_publishes: 40,
    hang_up_in_a_transaction: 80,
    publish_in_one_write: 30,
    fan_out: 30,
    declare_in_one_write: 30,
    lose_exclusive_queues: 200,
    delete_what_is_bound: 100,
    delete_an_exchange: 100,
    end_consumers: 50,
    delete_what_is_consumed: 50,
    delete_a_virtual_host: 200,
    close_connections: 5,
    end_what_is_overdue: 5,
    find_what_to_page: 30,
    find_out_whether_memory_is_short: 30,
    page_out_what_is_held: 15,
    ack_where_very_many_share_a_prefetch: 90,
    hand_out: 30,
    read_a_stream: 30,
    apply_a_policy: 30,
    drop_what_is_held: 40,
    let_held_messages_go: 50,
}
"""What a client or an operator may ask for, which gives how much of it the first turn has done, and the least number of
turns that all of it takes."""


@pytest.mark.parametrize("event", EVENTS)
def test_no_turn_works_without_bound(event: Callable[[Crowd], int]) -> None:
    crowd = Crowd()
    done = event(crowd)
    assert done <= 2 * STEP, "all in one turn"
    crowd.rest()
    assert crowd.turns >= EVENTS[event]


# --- and clients notice nothing


def test_a_request_about_a_queue_waits_until_all_is_back_in_it(crowd: Crowd) -> None:
    crowd.hold()
    crowd.limit()
    crowd.send(BasicNack(0, True, True))
    crowd.other.connection.feed(encode_method(1, QueueDeclare(queue="q", passive=True)), 1000.0)
    assert crowd.depth("q") < COUNT
    (answer,) = crowd.other.receive()
    assert answer.method.message_count == COUNT


@pytest.mark.parametrize(("method", "count"), [(QueuePurge(queue="q"), COUNT), (QueueDelete(queue="q"), COUNT)])
def test_the_same_clients_next_command_comes_after_all_of_the_last(crowd: Crowd, method: Method, count: int) -> None:
    crowd.hold()
    crowd.limit()
    crowd.send(BasicNack(0, True, True), method)
    (answer,) = crowd.greedy.receive()
    assert answer.method.message_count == count


def test_nothing_overtakes_what_comes_back(crowd: Crowd) -> None:
    """A consumer that is there all the time, and messages that come while others are still to come back."""
    crowd.hold()
    crowd.other.ask(BasicConsume(queue="q", consumer_tag="c", no_ack=True))
    crowd.limit()
    crowd.send(BasicNack(0, True, True))
    crowd.other.send(1, BasicPublish(routing_key="q"), b"late")
    bodies = [each.body for each in crowd.other.receive() if isinstance(each.method, BasicDeliver)]
    assert bodies == [*(b"%d" % number for number in range(COUNT)), b"late"]


def test_a_client_that_is_gone_gives_back_all_it_held(crowd: Crowd) -> None:
    crowd.hold()
    crowd.limit()
    crowd.greedy.connection.lose(1000.0)
    crowd.greedy.connection.lose(1000.0)
    assert crowd.greedy.connection in crowd.broker.connections
    crowd.rest()
    assert crowd.greedy.connection not in crowd.broker.connections
    assert crowd.depth("q") == COUNT


def test_a_message_for_very_many_is_confirmed_when_all_have_it(crowd: Crowd) -> None:
    for number in range(200):
        crowd.greedy.declare(f"q{number}")
        crowd.greedy.bind(f"q{number}", "amq.fanout")
    crowd.greedy.ask(ConfirmSelect())
    crowd.limit()
    crowd.broker.work.quantum.begin()
    crowd.greedy.send(1, BasicPublish(exchange="amq.fanout"))
    assert crowd.greedy.connection.take_output() == b""
    (answer,) = crowd.greedy.receive()
    assert answer.method == BasicAck(1, False)
    assert all(crowd.depth(f"q{number}") == 1 for number in range(200))


def test_an_error_at_the_end_of_long_work_is_answered_as_the_frames(crowd: Crowd) -> None:
    crowd.greedy.declare("q", durable=True, arguments={"x-queue-type": "stream"})
    for number in range(COUNT):
        crowd.greedy.send(1, BasicPublish(routing_key="q"), b"%d" % number)
    crowd.greedy.ask(BasicQos(prefetch_count=COUNT))
    crowd.greedy.send(1, BasicConsume(queue="q", consumer_tag="c", arguments=Table({"x-stream-offset": "first"})))
    crowd.greedy.receive()
    crowd.limit()
    crowd.send(BasicNack(0, True, True))
    assert crowd.greedy.connection.is_behind
    assert crowd.greedy.transcript().startswith("connection 540 basic.nack")


def test_what_expires_behind_a_message_is_not_counted_with_it(crowd: Crowd) -> None:
    """However many turns it takes until all of it is gone."""
    crowd.greedy.declare("q")
    crowd.greedy.send(1, BasicPublish(routing_key="q"), b"first")
    for _ in range(COUNT):
        crowd.greedy.send(1, BasicPublish(routing_key="q"), expiration="1")
    crowd.greedy.send(1, BasicPublish(routing_key="q"), b"last")
    crowd.limit()
    crowd.greedy.now += 1
    crowd.send(BasicGet(queue="q"), BasicGet(queue="q"), BasicGet(queue="q"))
    assert crowd.depth("q") > COUNT / 2
    first, last, none = crowd.greedy.receive()
    assert (first.body, first.method.message_count, first.method.delivery_tag) == (b"first", 1, 1)
    assert (last.body, last.method.message_count, none.method) == (b"last", 0, BasicGetEmpty())


def test_a_client_that_goes_before_it_is_answered_loses_nothing(crowd: Crowd) -> None:
    crowd.greedy.declare("q")
    crowd.greedy.send(1, BasicPublish(routing_key="q"), b"first")
    for _ in range(COUNT):
        crowd.greedy.send(1, BasicPublish(routing_key="q"), expiration="1")
    crowd.limit()
    crowd.greedy.now = crowd.other.now = 1001.0
    crowd.send(BasicGet(queue="q"))
    crowd.greedy.connection.lose(crowd.greedy.now)
    crowd.rest()
    assert crowd.depth("q") == 1


class FailingBacklog(Backlog):
    """Takes nothing back."""

    def put_back(self, entry: QueueEntry) -> None:
        raise RuntimeError("on purpose")


def test_work_that_fails_costs_its_client_only(crowd: Crowd) -> None:
    crowd.hold()
    failures = noted(crowd.broker)
    crowd.limit()
    crowd.send(BasicNack(0, True, True))
    crowd.vhost.queues["q"]._backlogs = [(0, FailingBacklog())]
    assert crowd.greedy.transcript().startswith("connection 541")
    assert [event for event, _ in failures] == ["unfinished work failed"]
    assert crowd.other.ask(BasicGet(queue="other", no_ack=True)) == BasicGetEmpty()
    assert not crowd.vhost.queues["q"].is_busy


def test_a_client_that_was_not_read_has_missed_no_heartbeat(crowd: Crowd) -> None:
    crowd.hold()
    crowd.greedy.connection.protocol.heartbeat = 1
    crowd.limit()
    crowd.send(BasicNack(0, True, True))
    crowd.greedy.connection.tick(2000.0)
    assert not crowd.greedy.connection.is_over


def consume_very_often(crowd: Crowd) -> None:
    crowd.greedy.declare("q", auto_delete=True)
    for number in range(COUNT):
        crowd.greedy.ask(BasicConsume(queue="q", consumer_tag=f"c{number}"))
    crowd.limit()
    crowd.broker.work.quantum.begin()


def test_the_answer_comes_before_very_many_notices(crowd: Crowd) -> None:
    consume_very_often(crowd)
    crowd.send(QueueDelete(queue="q"), BasicGet(queue="other", no_ack=True))
    answer, *notices, last = [each.method for each in crowd.greedy.receive()]
    assert answer == QueueDeleteOk(0)
    assert [notice.consumer_tag for notice in notices] == [f"c{number}" for number in range(COUNT)]
    assert last == BasicGetEmpty()


def test_who_cancels_meanwhile_gets_no_cancel_when_the_queue_is_gone(crowd: Crowd) -> None:
    consume_very_often(crowd)
    crowd.vhost.delete_queue("q", None)
    crowd.send(BasicCancel(f"c{COUNT - 1}"))
    methods = [each.method for each in crowd.greedy.receive()]
    assert [each for each in methods if each.consumer_tag == f"c{COUNT - 1}"] == [BasicCancelOk(f"c{COUNT - 1}")]
    assert len(methods) == COUNT
    assert not crowd.greedy.connection.channels[1].deliveries.consumers


def test_a_virtual_host_made_again_keeps_nothing_of_the_old_one(crowd: Crowd) -> None:
    """Nor does it lose what has the name of something that was not deleted yet."""
    events: list[str] = []
    crowd.broker.events.observers.append(lambda event: events.append(event.name))
    delete_a_virtual_host(crowd)
    old = [name for name in events if name != "queue.created"]
    assert "vhost.deleted" not in old
    crowd.broker.add_vhost("v")
    assert [name for name in events if name.startswith("vhost.")] == ["vhost.created", "vhost.deleted", "vhost.created"]
    assert events.count("queue.deleted") == COUNT
    crowd.rest()
    assert events.count("vhost.deleted") == 1
    assert "v" in crowd.broker.vhosts


def test_what_is_long_is_not_done_in_a_turn_as_long_as_one_for_publishes() -> None:
    """A turn for what was read at once is a long one, but not for an ack of a million."""
    crowd = Crowd()
    crowd.hold()
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 1.0
        return now

    crowd.broker.work.quantum.limit(STEP, 3.0, clock)
    crowd.broker.work.quantum.begin(8)
    crowd.greedy.connection.feed(encode_method(1, BasicNack(0, True, True)), crowd.greedy.now)
    assert now < 8.0
    assert crowd.broker.work
