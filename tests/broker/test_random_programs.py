"""Any program at all: a broker answers and delivers what the plain reference does."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

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
    BasicRecover,
    BasicReject,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConnectionClose,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    TxCommit,
    TxRollback,
    TxSelect,
)
from amqproxy.amqp091.wire import Table
from amqproxy.broker.queues import backlog
from tests.behaviours.client import plain
from tests.broker.players import CHANNELS, OPERATIONS, Arrival, KeptPlayer, OwnPlayer, RealPlayer, SlicedPlayer
from tests.broker.reference import Ambiguous, Channel, Delivery, Exchange, Message, Reference, Refused
from tests.example_count import example_count
from tests.real.rabbitmq import RabbitMQ

pytestmark = pytest.mark.slow

CONNECTIONS = 2
QUEUES = ("q0", "q1", "q2", "q3")
EXCHANGES = ("x0", "x1", "x2")

channels = st.integers(0, CONNECTIONS * len(CHANNELS) - 1)
queue_names = st.sampled_from(QUEUES)
exchange_names = st.sampled_from(EXCHANGES)
keys = st.sampled_from(["a", "b", "a.b"])
patterns = st.sampled_from(["a", "b", "a.*", "#", "#.b"])
rarely = st.integers(0, 7).map(lambda number: number == 7)
lengths = {"x-max-length": st.integers(0, 3)}
overflows = {"x-overflow": st.sampled_from(["drop-head", "reject-publish", "reject-publish-dlx"])}
dead_letters = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"x-dead-letter-exchange": st.just(""), "x-dead-letter-routing-key": queue_names}),
    st.fixed_dictionaries({"x-dead-letter-exchange": st.just(""), "x-dead-letter-routing-key": queue_names}),
    st.fixed_dictionaries({"x-dead-letter-exchange": exchange_names}),
)
arguments = st.builds(
    lambda *parts: {name: value for part in parts for name, value in part.items()},
    st.one_of(st.just({}), st.fixed_dictionaries(lengths), st.fixed_dictionaries(lengths | overflows)),
    dead_letters,
    st.sampled_from([{}, {}, {}, {"x-max-priority": 2}, {"x-single-active-consumer": True}]),
)
queue_settings = st.fixed_dictionaries(
    {"exclusive": rarely, "auto_delete": rarely, "durable": st.booleans(), "arguments": arguments}
)
exchange_settings = st.fixed_dictionaries(
    {
        "type_": st.sampled_from(["direct", "fanout", "topic"]),
        "auto_delete": rarely,
        "internal": rarely,
        "durable": st.booleans(),
        "alternate": st.one_of(st.none(), st.none(), exchange_names),
    }
)
destinations = st.one_of(st.tuples(st.just("queue"), queue_names), st.tuples(st.just("exchange"), exchange_names))
flags = (st.booleans(), st.integers(0, 3), st.booleans())
to_queues = st.tuples(st.tuples(st.just(""), queue_names), *flags)
to_exchanges = st.tuples(st.tuples(exchange_names, keys), *flags)
"""Where a message goes, whether it is mandatory, its priority, and whether it is persistent."""


def sometimes(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Mostly None."""
    return st.one_of(st.none(), st.none(), st.none(), strategy)


def word(name: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """What a client may do: a method of `Programs`, and its arguments."""
    return st.tuples(st.just(name), *arguments)


publishing = st.one_of(
    word("publish", st.lists(to_queues, min_size=1, max_size=4)),
    word("publish", st.lists(to_exchanges, min_size=1, max_size=4)),
)
taking = st.one_of(
    word("consume", queue_names, st.booleans(), st.just(False), st.just(0), st.just(False)),
    word("consume", queue_names, st.booleans(), rarely, st.sampled_from([0, 0, 1]), rarely),
    word("get", queue_names, st.booleans()),
)
places = st.integers(0, 7)
settling = st.one_of(
    word("settle", places, st.booleans(), st.just("ack"), rarely),
    word("settle", places, st.booleans(), st.sampled_from(["ack", "requeue", "reject"]), rarely),
    word("settle", places, st.booleans(), st.just("reject"), rarely),
    word("recover"),
    word("end_transaction", st.sampled_from(["commit", "commit", "rollback"])),
)
changing = st.one_of(
    word("declare_queue", queue_names, sometimes(queue_settings)),
    word("inspect", queue_names),
    word("purge", queue_names),
    word("delete_queue", queue_names, st.booleans(), st.booleans()),
    word("declare_exchange", exchange_names, sometimes(exchange_settings)),
    word("delete_exchange", exchange_names, st.booleans()),
    word("bind", destinations, exchange_names, patterns),
    word("bind", destinations, exchange_names, patterns),
    word("unbind", destinations, exchange_names, patterns),
    word("limit", st.integers(1, 3), rarely),
    word("limit", st.integers(0, 3), rarely),
    word("select_confirms"),
    word("select_transactions"),
    word("cancel", places),
    word("cancel", places),
    word("close_channel"),
    word("close_connection", st.booleans()),
)

Event = tuple[Any, ...]


class Programs(RuleBasedStateMachine):
    """Two connections of two channels each. A rule is one thing that a client does, and all that comes of it."""

    new_player: ClassVar[Callable[[], Any]]

    def __init__(self) -> None:
        super().__init__()
        self.player = self.new_player()
        self.channels = [Channel(number, number // len(CHANNELS)) for number in range(CONNECTIONS * len(CHANNELS))]
        self.expected: dict[int, list[Event]] = {}
        self.tags = [0] * len(self.channels)
        self.consumer_tags = 0
        self.messages = 0
        self.settings: dict[str, dict[str, Any]] = {}
        """How each queue and exchange was declared, or should have been, the last time."""
        self.reference = Reference(self.channels, self.expect_event, are_concurrent=self.player.is_concurrent)
        for connection in range(CONNECTIONS):
            self.player.open(connection)

    def teardown(self) -> None:
        self.player.stop()

    # --- one step

    def expect_event(self, channel: Channel, *what: Any) -> None:
        self.expected.setdefault(channel.number, []).append(what)

    def act(
        self,
        number: int,
        methods: list[tuple[Method, bytes, dict[str, Any]]],
        consequences: list[Callable[[Reference, Channel], Event | None]],
    ) -> None:
        """Let a channel send methods, and hold what comes of it against what their consequences are."""
        reference, channel = self.reference, self.channels[number]
        reference.begin()
        if self.is_ambiguous(number, consequences):
            event("ambiguous")
            return
        for method, body, properties in methods:
            self.player.send(channel.connection, number % len(CHANNELS) + 1, method, body, **properties)
        self.compare(channel, consequences)

    def compare(self, channel: Channel, consequences: list[Callable[[Reference, Channel], Event | None]]) -> None:
        received_events = self.received_events()
        self.expected = {}
        self.follow(self.reference, channel, consequences)
        self.reference.end()
        for each in self.channels:
            compare(received_events.get(each.number, []), self.expected.get(each.number, []))
        assert received_events.get(-1, []) == self.expected.get(-1, [])

    def follow(
        self, reference: Reference, channel: Channel, consequences: list[Callable[[Reference, Channel], Event | None]]
    ) -> None:
        """What the reference makes of it."""
        try:
            for consequence in consequences:
                answer = consequence(reference, channel)
                if answer is not None:
                    reference.expect_event(channel, *answer)
        except Refused as refused:
            if refused.scope == "channel":
                reference.expect_event(channel, "close", refused.code)
                reference.refuse(channel, refused.scope)
                event(f"channel {refused.code}")
            else:
                self.expected[-1] = [("connection close", channel.connection, refused.code)]
                reference.refuse(channel, refused.scope)

    def is_ambiguous(self, number: int, consequences: list[Callable[[Reference, Channel], Event | None]]) -> bool:
        """What is to come of it is not defined."""
        rehearsal = self.reference.copy()
        rehearsal.is_rehearsal = True
        try:
            self.follow(rehearsal, rehearsal.channels[number], consequences)
        except Ambiguous:
            return True
        return False

    def received_events(self) -> dict[int, list[Event]]:
        """What has come to each channel; deliveries are handed to the reference."""
        places = [(queue.name, queue.owner or 0) for queue in self.reference.queues.values()]
        received_events: dict[int, list[Event]] = {}
        left = deque(self.player.receive_events(places))
        closed: list[int] = []
        while left:
            connection, number, received = left.popleft()
            place = connection * len(CHANNELS) + number - 1
            events = received_events.setdefault(place if number else -1, [])
            match received.method:
                case ConnectionClose() as method:
                    events.append(("connection close", connection, method.reply_code))
                    self.reopen(connection)
                case BasicDeliver() as method:
                    consumers = [
                        *self.channels[place].consumers,
                        *(what[1] for what in events if what[0] == "consuming"),
                    ]
                    assert method.consumer_tag in consumers, f"{method} to none of {consumers}"
                    self.reference.delivered[place, method.consumer_tag].append(self.delivery(place, received))
                case BasicGetOk() as method:
                    events.append(("got", self.delivery(place, received), method.message_count))
                case BasicGetEmpty():
                    events.append(("empty",))
                case BasicConsumeOk(tag):
                    events.append(("consuming", tag))
                case BasicCancel(tag) | BasicCancelOk(tag):
                    events.append(("cancel" if isinstance(received.method, BasicCancel) else "cancelled", tag))
                case BasicReturn():
                    events.append(("return", int(received.body)))
                case BasicAck(tag, multiple) | BasicNack(tag, multiple):
                    name = "ack" if isinstance(received.method, BasicAck) else "nack"
                    events.append((name, tag, multiple))
                case QueueDeclareOk(_, messages, consumer_count):
                    events.append(("declared", messages, consumer_count))
                case QueuePurgeOk(count) | QueueDeleteOk(count):
                    events.append(("count", count))
                case ChannelClose() as method:
                    events.append(("close", method.reply_code))
                    closed.append(place)
                case ChannelOpenOk():
                    pass
                case method:
                    events.append((method.name,))
                    closed += [place] * isinstance(method, ChannelCloseOk)
            if not left and closed:
                left.extend(self.reopened(closed.pop(), places))
        return received_events

    def delivery(self, place: int, received: Any) -> Delivery:
        method = received.method
        self.tags[place] += 1
        assert method.delivery_tag == self.tags[place]
        deaths = plain((received.properties.headers or {}).get("x-death", ()))
        message = Message(
            int(received.body),
            method.exchange,
            method.routing_key,
            received.properties.priority or 0,
            received.properties.delivery_mode == 2,
            tuple((death["queue"], death["reason"], death["count"]) for death in deaths),
        )
        return Delivery(method.delivery_tag, message, method.redelivered)

    def reopened(self, place: int, queues: list[tuple[str, int]]) -> list[Arrival]:
        """Open a channel that either side has closed; what comes then."""
        self.tags[place] = 0
        self.player.send(place // len(CHANNELS), place % len(CHANNELS) + 1, ChannelOpen())
        return self.player.receive_events(queues)  # type: ignore[no-any-return]

    def reopen(self, connection: int) -> None:
        self.player.drop(connection)
        self.player.open(connection)
        for channel in self.channels:
            if channel.connection == connection:
                self.tags[channel.number] = 0

    def ask(self, number: int, method: Method, consequence: Callable[[Reference, Channel], Event | None]) -> None:
        self.act(number, [(method, b"", {})], [consequence])

    # --- what clients do

    @initialize(
        queues=st.fixed_dictionaries(dict.fromkeys(QUEUES, queue_settings)),
        exchanges=st.fixed_dictionaries(dict.fromkeys(EXCHANGES, exchange_settings)),
        bindings=st.lists(st.tuples(destinations, exchange_names, patterns), min_size=2, max_size=8),
    )
    def prepare(self, queues: dict[str, Any], exchanges: dict[str, Any], bindings: list[Any]) -> None:
        for name, setting in exchanges.items():
            self.declare_exchange(0, name, setting)
        for name, setting in queues.items():
            self.declare_queue(0, name, setting)
        for destination, source, key in bindings:
            self.bind(0, destination, source, key)

    @rule(number=channels, what=publishing)
    def send(self, number: int, what: tuple[Any, ...]) -> None:
        self.do(number, what)

    @rule(number=channels, what=taking)
    def take(self, number: int, what: tuple[Any, ...]) -> None:
        self.do(number, what)

    @precondition(lambda self: any(channel.held or channel.is_transactional for channel in self.channels))
    @rule(number=channels, what=settling)
    def finish(self, number: int, what: tuple[Any, ...]) -> None:
        self.do(number, what)

    @rule(number=channels, what=changing)
    def change(self, number: int, what: tuple[Any, ...]) -> None:
        self.do(number, what)

    def do(self, number: int, what: tuple[Any, ...]) -> None:
        getattr(self, what[0])(number, *what[1:])

    def declare_queue(self, number: int, name: str, setting: dict[str, Any] | None) -> None:
        setting = self.settings[name] = self.settings[name] if setting is None else setting
        method = QueueDeclare(queue=name, **{**setting, "arguments": Table(setting["arguments"])})
        self.ask(number, method, lambda it, channel: ("declared", *it.declare_queue(channel, name, **setting)))

    def inspect(self, number: int, name: str) -> None:
        method = QueueDeclare(queue=name, passive=True)
        self.ask(number, method, lambda it, channel: ("declared", *it.inspect(channel, name)))

    def purge(self, number: int, name: str) -> None:
        self.ask(number, QueuePurge(queue=name), lambda it, channel: ("count", it.purge(channel, name)))

    def delete_queue(self, number: int, name: str, if_unused: bool, if_empty: bool) -> None:
        method = QueueDelete(queue=name, if_unused=if_unused, if_empty=if_empty)
        self.ask(number, method, lambda it, channel: ("count", it.delete_queue(channel, name, if_unused, if_empty)))

    def declare_exchange(self, number: int, name: str, setting: dict[str, Any] | None) -> None:
        setting = self.settings[name] = self.settings[name] if setting is None else setting
        new = Exchange(name, setting["type_"], **{key: setting[key] for key in setting if key != "type_"})
        method = ExchangeDeclare(
            exchange=name,
            type=new.type,
            durable=new.durable,
            auto_delete=new.auto_delete,
            internal=new.internal,
            arguments=Table({"alternate-exchange": new.alternate} if new.alternate else {}),
        )
        self.ask(number, method, lambda it, _: it.declare_exchange(replace(new)) or ("exchange.declare-ok",))

    def delete_exchange(self, number: int, name: str, if_unused: bool) -> None:
        method = ExchangeDelete(exchange=name, if_unused=if_unused)
        self.ask(number, method, lambda it, _: it.delete_exchange(name, if_unused) or ("exchange.delete-ok",))

    def bind(self, number: int, destination: tuple[str, str], source: str, key: str) -> None:
        kind, name = destination
        method = ExchangeBind(0, name, source, key) if kind == "exchange" else QueueBind(0, name, source, key)
        answer = (f"{kind}.bind-ok",)
        self.ask(number, method, lambda it, channel: it.bind(channel, kind, name, source, key) or answer)

    def unbind(self, number: int, destination: tuple[str, str], source: str, key: str) -> None:
        kind, name = destination
        method = ExchangeUnbind(0, name, source, key) if kind == "exchange" else QueueUnbind(0, name, source, key)
        answer = (f"{kind}.unbind-ok",)
        self.ask(number, method, lambda it, channel: it.unbind(channel, kind, name, source, key) or answer)

    def publish(self, number: int, batch: list[Any]) -> None:
        methods: list[tuple[Method, bytes, dict[str, Any]]] = []
        consequences: list[Callable[[Reference, Channel], Event | None]] = []
        for (exchange, key), mandatory, priority, is_persistent in batch:
            self.messages += 1
            message = Message(self.messages, exchange, key, priority, is_persistent)
            method = BasicPublish(0, exchange, key, mandatory)
            properties = {"priority": priority or None, "delivery_mode": 2 if is_persistent else None}
            methods.append((method, b"%d" % message.number, properties))
            consequences.append(
                lambda it, channel, message=message, mandatory=mandatory: it.publish(channel, message, mandatory)  # type: ignore[misc]
            )
        self.act(number, methods, consequences)

    def consume(self, number: int, name: str, no_ack: bool, exclusive: bool, priority: int, is_repeated: bool) -> None:
        self.consumer_tags += 1
        tag = f"c{self.consumer_tags}"
        if is_repeated:
            tag = next(iter(self.channels[number].consumers), tag)
        method = BasicConsume(
            queue=name,
            consumer_tag=tag,
            no_ack=no_ack,
            exclusive=exclusive,
            arguments=Table({"x-priority": priority} if priority else {}),
        )
        self.ask(
            number,
            method,
            lambda it, channel: (
                "consuming",
                it.consume(channel, name, tag, no_ack, exclusive, priority).tag,
            ),
        )

    def cancel(self, number: int, which: int) -> None:
        """On a channel that has a consumer, the given one or the next."""
        if any(channel.consumers for channel in self.channels):
            while not self.channels[number].consumers:
                number = (number + 1) % len(self.channels)
        tags = [*self.channels[number].consumers] or ["none"]
        tag = tags[which % len(tags)]
        self.ask(number, BasicCancel(tag), lambda it, channel: it.cancel(channel, tag) or ("cancelled", tag))

    def get(self, number: int, name: str, no_ack: bool) -> None:
        filled = [queue.name for queue in self.reference.queues.values() if queue.ready]
        if filled and name not in filled:
            name = filled[-1]
        tag = self.tags[number] + 1

        def consequence(it: Reference, channel: Channel) -> Event:
            got = it.get(channel, name, no_ack, tag)
            if got is None:
                return ("empty",)
            entry, left = got
            return ("got", Delivery(tag, entry.message, entry.is_redelivered), left)

        self.ask(number, BasicGet(queue=name, no_ack=no_ack), consequence)

    def settle(self, number: int, which: int, multiple: bool, outcome: str, is_wrong: bool) -> None:
        """On a channel that holds something, the given one or the next."""
        if not any(channel.held for channel in self.channels):
            return
        while not self.channels[number].held:
            number = (number + 1) % len(self.channels)
        tags = [held.tag for held in self.channels[number].held]
        tag = self.tags[number] + 1 if is_wrong else [*tags, *([0] if multiple else [])][which % len(tags)]
        method: Method
        if outcome == "ack":
            method = BasicAck(tag, multiple)
        elif multiple or which % 2:
            method = BasicNack(tag, multiple, outcome == "requeue")
        else:
            method = BasicReject(tag, outcome == "requeue")
        self.ask(number, method, lambda it, channel: it.settle(channel, tag, multiple, outcome))

    def recover(self, number: int) -> None:
        self.ask(number, BasicRecover(True), lambda it, channel: it.recover(channel) or ("basic.recover-ok",))

    def limit(self, number: int, count: int, is_global: bool) -> None:
        if is_global and self.channels[number].held:
            return  # RabbitMQ counts these too, got ones included, until they are settled

        def consequence(it: Reference, channel: Channel) -> Event:
            if is_global:
                channel.global_prefetch = count
            else:
                channel.prefetch = count
            return ("basic.qos-ok",)

        self.ask(number, BasicQos(0, count, is_global), consequence)

    def select_confirms(self, number: int) -> None:
        self.ask(number, ConfirmSelect(), lambda it, channel: it.select_confirms(channel) or ("confirm.select-ok",))

    def select_transactions(self, number: int) -> None:
        self.ask(number, TxSelect(), lambda it, channel: it.select_transactions(channel) or ("tx.select-ok",))

    def end_transaction(self, number: int, how: str) -> None:
        """On a channel that has one, the given one or the next; rarely on another."""
        if any(channel.is_transactional for channel in self.channels):
            while not self.channels[number].is_transactional:
                number = (number + 1) % len(self.channels)
        if how == "commit":
            self.ask(number, TxCommit(), lambda it, channel: it.commit(channel) or ("tx.commit-ok",))
        else:
            self.ask(number, TxRollback(), lambda it, channel: it.roll_back(channel) or ("tx.rollback-ok",))

    def close_channel(self, number: int) -> None:
        method = ChannelClose(200, "bye")
        self.ask(number, method, lambda it, channel: it.close_channel(channel) or ("channel.close-ok",))

    def close_connection(self, number: int, is_polite: bool) -> None:
        connection = number // len(CHANNELS)
        self.reference.begin()
        consequences: list[Callable[[Reference, Channel], Event | None]] = [
            lambda it, channel: it.close_connection(channel.connection)
        ]
        if self.is_ambiguous(number, consequences):
            return
        if is_polite or self.player.is_concurrent:
            self.player.send(connection, 0, ConnectionClose(200, "bye"))
            self.player.part(connection)
        self.reopen(connection)
        self.compare(self.channels[number], consequences)


def compare(received_events: list[Event], expected: list[Event]) -> None:
    """Both are the same, but for the order of notices, and how confirms are put together."""
    settled: list[tuple[str, int]] = []
    rest: list[Event] = []
    confirmed = [each for each in expected if each[0] in ("ack", "nack")]
    returns = {each[1]: expected[place + 1] for place, each in enumerate(expected[:-1]) if each[0] == "return"}
    for each in received_events:
        if each[0] in ("ack", "nack"):
            name, tag, multiple = each
            covered = [number for _, number in confirmed if number == tag or (multiple and number < tag)]
            new = [(name, number) for number in covered if number not in [number for _, number in settled]]
            assert new, f"{each} confirms nothing"
            settled += new
        else:
            if each[0] == "return":
                assert returns.get(each[1]) not in settled, "confirmed, and then returned"
            rest.append(each)
    if ("close", 404) not in received_events and ("close", 403) not in received_events:
        assert sorted(settled, key=lambda each: each[1]) == confirmed
    notices = [sorted(each for each in events if each[0] == "cancel") for events in (rest, expected)]
    assert notices[0] == notices[1]
    rest, wanted = (
        [each for each in events if each[0] not in ("cancel", "ack", "nack")] for events in (rest, expected)
    )
    assert rest == wanted


class OwnPrograms(Programs):
    new_player = OwnPlayer

    @rule(name=queue_names)
    def page_out(self, name: str) -> None:
        """Memory is short: what waits goes to the disk, and no client is to notice."""
        self.player.page_out(name)


class KeptPrograms(OwnPrograms):
    """With a store; the broker ends now and then, and another begins with it."""

    new_player = KeptPlayer

    @rule()
    def restart(self) -> None:
        self.player.restart()
        self.tags = [0] * len(self.channels)
        self.reference.restart()
        event("restart")


class SlicedPrograms(OwnPrograms):
    """In turns of very few operations, and no client is to notice."""

    new_player = SlicedPlayer


class SlicedKeptPrograms(KeptPrograms):
    new_player = lambda self: KeptPlayer(OPERATIONS)  # noqa: E731


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


@pytest.fixture(autouse=True)
def paged_out_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Very little is enough to be paged out."""
    monkeypatch.setattr(backlog, "HEAD_MESSAGES", 1)
    monkeypatch.setattr(backlog, "BLOCK_MESSAGES", 2)


def test_our_broker_does_as_the_reference_does() -> None:
    run(OwnPrograms, 150)


def test_and_it_still_is_when_it_is_started_again() -> None:
    run(KeptPrograms, 40)


def test_and_it_still_is_in_turns_of_a_few_operations() -> None:
    run(SlicedPrograms, 150)


def test_and_in_such_turns_when_it_is_started_again() -> None:
    run(SlicedKeptPrograms, 40)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("programs", "examples"),
    [(OwnPrograms, 10_000), (KeptPrograms, 4000), (SlicedPrograms, 10_000), (SlicedKeptPrograms, 4000)],
)
def test_our_broker_does_as_the_reference_does_for_long(programs: type[Programs], examples: int) -> None:
    run(programs, examples, steps=60)


@pytest.fixture
def programs_on_rabbitmq(rabbitmq: RabbitMQ) -> type[Programs]:
    class RealPrograms(Programs):
        new_player = lambda self: RealPlayer(rabbitmq.port)  # noqa: E731

    return RealPrograms


@pytest.mark.soak
@pytest.mark.real
@pytest.mark.timeout(3600)
def test_the_reference_is_as_rabbitmq_is(programs_on_rabbitmq: type[Programs]) -> None:
    run(programs_on_rabbitmq, 200)
