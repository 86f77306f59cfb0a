"""A broker that is started again is what it was."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.amqp091.wire import Field, Table
from amqproxy.broker.access.permissions import Permission, TopicPermission
from amqproxy.broker.access.users import LoginRefused, User
from amqproxy.broker.broker import Broker
from amqproxy.broker.definitions.definitions_json import export, load
from amqproxy.broker.definitions.recovery import DefinitionRecorder, restore
from amqproxy.broker.message import Message
from amqproxy.broker.queues.policies import make_policy
from amqproxy.broker.queues.queue_storage import QueueStorage
from amqproxy.broker.storage.batch import LogOwner
from amqproxy.broker.storage.definition_records import (
    AnyDurable,
    DurableBinding,
    DurableQueue,
    DurableSegment,
    decode,
    encode,
)
from amqproxy.broker.storage.journal import Journal
from tests.example_count import example_count

NOW = 1000.0


class Remembered:
    """A broker, and what the disk would have of it."""

    def __init__(self) -> None:
        self.broker = Broker()
        self.journal = Journal()
        self.recorder = DefinitionRecorder(self.broker, self.journal)
        self.recorder.begin([])
        self.recorder.compare()
        self._disk: dict[str, bytes] = {}

    @property
    def disk(self) -> list[AnyDurable]:
        batch = self.journal.take_batch()
        for key, durable in batch.durables.items():
            if durable is None:
                self._disk.pop(key, None)
            else:
                self._disk[key] = encode(durable)
        return [decode(data) for data in self._disk.values()]

    def again(self) -> Broker:
        broker = Broker()
        assert restore(broker, self.disk, NOW) == []
        return broker

    def exchange(self, name: str, type_: str = "direct", vhost: str = "/", **options: Any) -> Any:
        options = {"durable": True, "auto_delete": False, "internal": False, "arguments": Table(), **options}
        return self.broker.vhosts[vhost].declare_exchange(name, type_, **options)

    def queue(self, name: str, vhost: str = "/", **options: Any) -> Any:
        options = {"durable": True, "exclusive": False, "auto_delete": False, "arguments": Table(), **options}
        return self.broker.vhosts[vhost].declare_queue(name, None, now=NOW, **options)


@pytest.fixture
def remembered() -> Remembered:
    return Remembered()


def sorted_export(broker: Broker) -> dict[str, Any]:
    """What there is, whatever the order; what does not last is left out."""
    found = export(broker)
    transient = {(each["vhost"], each["name"]) for each in found["queues"] + found["exchanges"] if not each["durable"]}
    found["bindings"] = [
        each
        for each in found["bindings"]
        if transient.isdisjoint({(each["vhost"], each["source"]), (each["vhost"], each["destination"])})
    ]
    for kind in ("queues", "exchanges"):
        found[kind] = [each for each in found[kind] if each["durable"]]
    return {name: sorted(each, key=repr) if isinstance(each, list) else each for name, each in found.items()}


def test_a_new_broker_comes_back(remembered: Remembered) -> None:
    assert sorted_export(remembered.again()) == sorted_export(remembered.broker)


def test_everything_comes_back(remembered: Remembered) -> None:
    broker = remembered.broker
    broker.add_vhost("v").describe("of ours", ["t"])
    broker.vhosts["v"].set_limits({"max-queues": 10})
    user = User.with_password("u", "secret", ["monitoring"])
    broker.add_user(user)
    user.permit("v", Permission("a", "b", "c"))
    user.permit_topic("v", "x", TopicPermission("w", "r"))
    user.set_limits({"max-channels": 3})
    broker.set_parameter("v", "c", "n", {"a": 1})
    broker.set_global_parameter("g", [1, 2])
    vhost = broker.vhosts["v"]
    vhost.set_policy(make_policy("p", "^q", {"max-length": 5}, 3, "queues"), NOW)
    vhost.set_policy(make_policy("o", ".", {"expires": 5}, is_operator=True), NOW, is_operator=True)
    source = remembered.exchange(
        "x", "topic", "v", internal=True, arguments=Table({"alternate-exchange": "amq.fanout"})
    )
    queue = remembered.queue("q", "v", auto_delete=True, arguments=Table([Field("x-max-length", "b", 5)]))
    inner = remembered.exchange("y", "headers", "v")
    vhost.bind(source, queue, "k.#", Table())
    vhost.bind(source, inner, "k", Table())
    vhost.bind(inner, queue, "", Table({"x-match": "any", "a": 1}))
    vhost.bind(vhost.exchange("amq.topic"), queue, "z", Table())
    again = remembered.again()
    assert sorted_export(again) == sorted_export(broker)
    assert again.vhosts["v"].queues["q"].arguments.fields == (Field("x-max-length", "b", 5),)
    assert again.vhosts["v"].queues["q"].policy_names == ("p", "o")
    assert again.log_in("u", "secret", is_loopback=False).name == "u"
    with pytest.raises(LoginRefused, match="can only connect via localhost"):
        again.log_in("guest", "guest", is_loopback=False)


def test_what_is_transient_or_exclusive_does_not(remembered: Remembered) -> None:
    vhost = remembered.broker.vhosts["/"]
    transient = remembered.exchange("x", durable=False)
    lasting = remembered.exchange("y")
    queue, other = remembered.queue("q"), remembered.queue("t", durable=False)
    for source, destination in ((transient, queue), (lasting, other), (lasting, transient)):
        vhost.bind(source, destination, "", Table())
    again = remembered.again().vhosts["/"]
    assert set(again.queues) == {"q"}
    assert "x" not in again.exchanges
    assert again.exchanges["y"].bindings == {}


def test_what_is_deleted_stays_deleted(remembered: Remembered) -> None:
    broker = remembered.broker
    broker.add_vhost("v")
    vhost = broker.vhosts["v"]
    vhost.bind(remembered.exchange("x", vhost="v"), remembered.queue("q", "v"), "", Table())
    remembered.exchange("z", vhost="v")
    assert len(remembered.disk) > 5
    broker.delete_vhost("v", NOW)
    broker.delete_user("guest", NOW)
    broker.delete_vhost("/", NOW)
    broker.add_vhost("only")
    again = remembered.again()
    assert list(again.vhosts) == ["only"]
    assert again.users == {}
    assert len(remembered.disk) == 1


def test_bindings_go_with_either_end(remembered: Remembered) -> None:
    vhost = remembered.broker.vhosts["/"]
    source, queue, other = remembered.exchange("x"), remembered.queue("q"), remembered.queue("o")
    for each in (queue, other):
        vhost.bind(source, each, "k", Table())
    vhost.delete_queue("o", None)
    assert [each.destination for each in remembered.disk if isinstance(each, DurableBinding)] == ["q"]
    vhost.delete_exchange("x")
    assert not [each for each in remembered.disk if isinstance(each, DurableBinding)]


def test_messages_go_with_their_queue(remembered: Remembered) -> None:
    remembered.queue("q", arguments=Table({"x-max-priority": 2}))
    for priority in range(3):
        remembered.journal.message_log(LogOwner("queue", "/", "q", priority)).enqueued(1, Message("", "q", b"", b"a"))
    assert remembered.disk
    remembered.broker.vhosts["/"].delete_queue("q", None)
    assert remembered.journal.take_batch().logs_deleted == [1, 2, 3]


def test_a_restored_broker_writes_nothing_again(remembered: Remembered) -> None:
    remembered.queue("q")
    disk = remembered.disk
    broker, journal = Broker(), Journal()
    restore(broker, disk, NOW)
    recorder = DefinitionRecorder(broker, journal)
    recorder.begin(disk)
    recorder.compare()
    assert journal.take_batch().is_empty


def test_what_cannot_be_made_is_reported_and_the_rest_is_made() -> None:
    broker = Broker()
    odd = [
        DurableQueue(vhost="nil", name="q"),
        DurableQueue(vhost="/", name="bad", arguments=b"\xff"),
        DurableQueue(vhost="/", name="negative", arguments=Table({"x-max-length": -1}).octets),
        DurableBinding(vhost="/", source="amq.direct", destination_type="queue", destination="q", routing_key=""),
        DurableQueue(vhost="/", name="good"),
    ]
    known = Remembered().disk
    faults = restore(broker, [*odd, *known], NOW)
    assert len(faults) == 4
    assert list(broker.vhosts["/"].queues) == ["good"]


def test_definitions_from_a_file_are_remembered(remembered: Remembered) -> None:
    load(
        remembered.broker,
        {
            "vhosts": [{"name": "v"}],
            "users": [{"name": "u", "password": "p", "tags": "administrator"}],
            "permissions": [{"user": "u", "vhost": "v", "configure": "", "write": "", "read": ""}],
            "queues": [{"name": "q", "vhost": "v", "arguments": {"x-queue-type": "quorum"}}],
            "bindings": [{"vhost": "v", "source": "amq.fanout", "destination": "q", "routing_key": ""}],
        },
        NOW,
    )
    assert sorted_export(remembered.again()) == sorted_export(remembered.broker)


CHANGES: list[Callable[[Broker], object]] = [
    lambda broker: broker.users["guest"].permit("v", Permission("a", "b", "c")),
    lambda broker: broker.users["guest"].permit("/", None),
    lambda broker: broker.users["guest"].permit_topic("/", "x", TopicPermission("w", "r")),
    lambda broker: broker.users["guest"].permit_topic("v", "y", None),
    lambda broker: broker.users["guest"].change_password("new"),
    lambda broker: broker.users["guest"].set_tags(["monitoring"]),
    lambda broker: broker.users["guest"].set_limits({"max-channels": 1}),
    lambda broker: broker.vhosts["v"].describe("other", ["t"]),
    lambda broker: broker.vhosts["v"].set_limits({"max-queues": 1}),
    lambda broker: broker.vhosts["v"].trace(True),
    lambda broker: broker.vhosts["v"].set_policy(make_policy("p", "", {"max-length": 1}), NOW),
    lambda broker: broker.vhosts["v"].clear_policy("old", NOW),
    lambda broker: broker.set_parameter("v", "c", "n", 2),
    lambda broker: broker.clear_parameter("v", "c", "n"),
    lambda broker: broker.set_global_parameter("g", 2),
    lambda broker: broker.clear_global_parameter("g"),
    lambda broker: broker.add_user(User("u", "")),
    lambda broker: broker.delete_user("guest", NOW),
    lambda broker: broker.add_vhost("w"),
    lambda broker: broker.delete_vhost("v", NOW),
]


@pytest.mark.parametrize("change", CHANGES, ids=range(len(CHANGES)))
def test_whatever_an_operator_changes_reaches_the_disk_by_itself(
    remembered: Remembered, change: Callable[[Broker], object]
) -> None:
    broker = remembered.broker
    broker.add_vhost("v").set_policy(make_policy("old", "", {"max-length": 1}), NOW)
    broker.users["guest"].permit_topic("v", "y", TopicPermission("w", "r"))
    broker.set_parameter("v", "c", "n", 1)
    broker.set_global_parameter("g", 1)
    before = sorted_export(remembered.again())
    assert not remembered.journal.is_dirty
    change(broker)
    assert remembered.journal.is_dirty
    after = sorted_export(remembered.again())
    assert after == sorted_export(broker)
    assert after != before or broker.vhosts["v"].is_traced


def test_a_thousand_changes_are_compared_once(remembered: Remembered) -> None:
    remembered.disk  # noqa: B018
    compared = []
    remembered.recorder.compare = lambda: compared.append(1)  # type: ignore[method-assign]
    for number in range(1000):
        remembered.broker.set_global_parameter(str(number), number)
    remembered.disk  # noqa: B018
    assert compared == [1]


def test_the_segments_of_a_stream_go_with_it(remembered: Remembered) -> None:
    arguments = Table({"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 1})
    remembered.broker.use_storage(QueueStorage(remembered.journal, lambda log_number, position, limit: []))
    stream = remembered.queue("s", arguments=arguments)
    for _ in range(3):
        stream.publish(Message("", "s", b"h", b"a"), NOW)
    assert len([each for each in remembered.disk if isinstance(each, DurableSegment)]) == 2
    assert remembered.again().vhosts["/"].queues["s"].durables() == stream.durables()  # type: ignore[attr-defined]
    remembered.broker.vhosts["/"].delete_queue("s", None)
    assert not [each for each in remembered.disk if isinstance(each, DurableSegment)]


STEPS = ("exchange", "queue", "bind", "delete exchange", "delete queue", "unbind", "policy", "restart")
steps = st.tuples(st.sampled_from(STEPS), st.integers(0, 3), st.integers(0, 3), st.booleans())


@settings(max_examples=example_count(100), deadline=None)
@given(st.lists(steps, max_size=40))
def test_whatever_is_done_comes_back(program: list[tuple[str, int, int, bool]]) -> None:
    remembered = Remembered()
    for step, first, second, flag in program:
        vhost = remembered.broker.vhosts["/"]
        exchanges = [
            vhost.exchanges["amq.fanout"],
            *(each for name, each in vhost.exchanges.items() if name[:1] == "x"),
        ]
        queues = list(vhost.queues.values())
        source = exchanges[first % len(exchanges)]
        places = queues if flag else exchanges
        if step == "exchange":
            if f"x{first}" not in vhost.exchanges:
                remembered.exchange(f"x{first}", "fanout", durable=second > 0, auto_delete=flag)
        elif step == "queue":
            if f"q{first}" not in vhost.queues:
                remembered.queue(f"q{first}", durable=second > 0, auto_delete=flag)
        elif step == "delete exchange":
            if source.name != "amq.fanout":
                vhost.delete_exchange(source.name)
        elif step == "delete queue":
            vhost.delete_queue(f"q{first}", None)
        elif step == "policy":
            if flag:
                vhost.set_policy(make_policy(f"p{first}", f"{second}", {"max-length": second}), NOW)
            else:
                vhost.clear_policy(f"p{first}", NOW)
        elif step == "restart":
            assert sorted_export(remembered.again()) == sorted_export(remembered.broker)
        elif places and step == "bind":
            vhost.bind(source, places[second % len(places)], "k" * first, Table({"n": second} if second else {}))
        elif places:
            vhost.unbind(source, places[second % len(places)], "k" * first, Table({"n": second} if second else {}))
    assert sorted_export(remembered.again()) == sorted_export(remembered.broker)
