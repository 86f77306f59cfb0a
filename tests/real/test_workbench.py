"""The workbench on real brokers: what a look at a queue does to it, as `disturbance` says."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import trio

from amqproxy.amqp091.properties import Properties
from amqproxy.rabbitmq.profile import PROFILES
from amqproxy.workbench.broker_api import APIFailed, BrokerAPI
from amqproxy.workbench.destination import ToExchange, ToOrigin, ToQueue
from amqproxy.workbench.disturbance import Disturbed
from amqproxy.workbench.held_message import HeldMessage
from amqproxy.workbench.queue_facts import Given, _limit_of
from tests.real.poll import until
from tests.real.ports import free_port
from tests.real.rabbitmq import running
from tests.real.rabbitmq_installation import chosen
from tests.workbench.bench_queue import BenchAt, Ends

pytestmark = pytest.mark.real

CLASSIC = Given(type="classic")
NO_LIMIT = Given(type="quorum", delivery_limit=-1)
TWICE = Given(type="quorum", delivery_limit=2)

NUMBERS = [b"%d" % number for number in range(6)]


@pytest.fixture(params=["rabbitmq", "own_broker"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> BenchAt:
    return BenchAt(request.getfixturevalue(request.param).port, tmp_path)


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ({}, CLASSIC),
        ({"x_queue_type": "quorum"}, NO_LIMIT),
        ({"x_queue_type": "quorum", "x_delivery_limit": 2}, TWICE),
    ],
    ids=["classic", "quorum", "quorum-limit"],
)
def test_a_look_keeps_all_messages_and_their_order(bench: BenchAt, arguments: dict[str, object], given: Given) -> None:
    queue = bench.numbered(6, **arguments)
    seen = bench.peeked(queue, given, limit=2, position=1)
    assert [message.body for message in seen] == [b"1", b"2"]
    assert (bench.report.looked_at, bench.report.not_looked_at) == (3, 3)
    found = bench.taken(queue)
    assert [body for _, _, body in found] == NUMBERS
    assert [method.redelivered for method, _, _ in found] == [True] * 3 + [False] * 3


def test_many_looks_lose_nothing_at_a_delivery_limit(bench: BenchAt) -> None:
    queue = bench.numbered(6, x_queue_type="quorum", x_delivery_limit=2)
    for _ in range(8):
        assert sorted(message.body for message in bench.peeked(queue, TWICE, limit=6)) == NUMBERS
    assert sorted(bench.bodies(queue)) == NUMBERS


def test_a_message_at_the_limit_is_put_at_the_end(bench: BenchAt) -> None:
    queue = bench.numbered(3, x_queue_type="quorum", x_delivery_limit=0)
    bench.peeked(queue, Given(type="quorum", delivery_limit=0), limit=1)
    bodies = bench.bodies(queue)
    if bench.report.rescued:
        assert (bench.report.rescued, bodies) == (1, [b"1", b"2", b"0"])
    else:  # RabbitMQ 4.3 does not count basic.nack
        assert bodies == [b"0", b"1", b"2"]


def test_only_what_the_filter_chooses_moves(bench: BenchAt) -> None:
    source, target = bench.numbered(600), bench.declare()
    report = bench.moved(source, ToQueue(target), where="headers.n % 2 == 0")
    assert (report.looked_at, report.chosen, report.done, report.failure) == (600, 300, 300, "")
    assert bench.bodies(target) == [b"%d" % number for number in range(0, 600, 2)]
    assert bench.bodies(source) == [b"%d" % number for number in range(1, 600, 2)]


def test_messages_that_no_queue_takes_stay(bench: BenchAt) -> None:
    source = bench.numbered(3)
    report = bench.moved(source, ToExchange("", "no such queue"))
    assert (report.done, report.left_count) == (0, 3)
    assert report.left[0].reason == "the target returned it: 312 NO_ROUTE"
    assert bench.bodies(source) == NUMBERS[:3]


def test_messages_that_a_full_queue_refuses_stay(bench: BenchAt) -> None:
    source, target = bench.numbered(6), bench.declare(x_max_length=2, x_overflow="reject-publish")
    report = bench.moved(source, ToExchange("", target))
    assert (report.done, report.left_count) == (2, 4)
    assert "basic.nack" in report.left[0].reason
    assert bench.bodies(source) == NUMBERS[2:]


def test_dead_letters_go_back_to_their_exchange(bench: BenchAt) -> None:
    dead = bench.declare()
    work = bench.declare(x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    with bench.channel() as channel:
        channel.exchange_declare(f"{work}.x", "topic", durable=True)
        channel.queue_bind(work, f"{work}.x", "order.#")
    bench.publish("order.new", NUMBERS, f"{work}.x", headers={"mine": 1})
    gone = bench.declare(x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    bench.publish(gone, [b"homeless"])
    for queue in (work, gone):
        with bench.channel() as channel:
            while (got := channel.basic_get(queue))[0] is not None:
                channel.basic_reject(got[0].delivery_tag, requeue=False)
    with bench.channel() as channel:
        channel.queue_delete(gone)
    bench.publish(dead, [b"no dead letter"])
    before = bench.moved(dead, ToOrigin(), is_dry_run=True)
    assert (before.done, before.left_count, before.is_dry_run) == (7, 1, True)
    assert bench.depth(dead) == 8
    report = bench.moved(dead, ToOrigin())
    assert (report.done, report.left_count) == (6, 2)
    assert [each.reason for each in report.left] == [
        "the target returned it: 312 NO_ROUTE",
        "it has no x-death: it is not a dead letter",
    ]
    back = bench.taken(work)
    assert [body for _, _, body in back] == NUMBERS
    assert (back[0][0].exchange, back[0][0].routing_key, back[0][1].headers["mine"]) == (f"{work}.x", "order.new", 1)
    assert bench.bodies(dead) == [b"homeless", b"no dead letter"]


def test_an_origin_whose_exchange_is_gone_is_named(bench: BenchAt) -> None:
    dead = bench.declare()
    work = bench.declare(x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    with bench.channel() as channel:
        channel.exchange_declare(f"{work}.x", "fanout", durable=True)
        channel.queue_bind(work, f"{work}.x")
    bench.publish("a", [b"1"], f"{work}.x")
    with bench.channel() as channel:
        channel.basic_reject(channel.basic_get(work)[0].delivery_tag, requeue=False)
        channel.exchange_delete(f"{work}.x")
    report = bench.moved(dead, ToOrigin())
    assert "404" in report.left[0].reason
    assert bench.moved(dead, ToOrigin("queue")).done == 1
    assert bench.bodies(work) == [b"1"]


def test_a_stream_is_read_and_not_moved(bench: BenchAt) -> None:
    stream = bench.declare(x_queue_type="stream")
    bench.publish(stream, NUMBERS)
    for _ in range(2):
        assert [message.body for message in bench.peeked(stream, Given(), limit=2, position=1)] == [b"1", b"2"]
    assert "it is a stream" in bench.moved(stream, ToExchange("", "x"), Given()).failure


def test_a_quorum_queue_is_not_touched_while_its_limit_is_unknown(bench: BenchAt) -> None:
    queue = bench.numbered(1, x_queue_type="quorum")
    refusal = ""
    try:
        bench.peeked(queue, Given())
    except Disturbed as error:
        refusal = str(error)
    assert "--api" in refusal or "No return counts" in bench.said[-1]  # RabbitMQ 4.3 counts none
    assert len(bench.bodies(queue)) == 1


@pytest.mark.parametrize("arguments", [{}, {"x_queue_type": "quorum"}], ids=["classic", "quorum"])
def test_messages_of_a_killed_run_are_known_again(bench: BenchAt, arguments: dict[str, str]) -> None:
    """Headers of a quorum queue's messages change with each return, and RabbitMQ 4.3 sorts them then."""
    source, target = bench.declare(**arguments), bench.declare()
    bench.publish(source, NUMBERS, headers={"z": 1, "a": [{"b": "c"}], "m": True}, priority=3)
    given = Given(type="quorum", delivery_limit=-1) if arguments else CLASSIC
    assert bench.settled(source, Ends(bench, target), given).failure == "killed"
    assert bench.depth(source) == 6
    bench.peeked(source, given, limit=3)
    assert bench.moved(source, ToQueue(target), given).possible_repeats == 6
    assert len(bench.bodies(target)) == 12


def test_the_management_api_tells_type_and_limit(tmp_path: Path) -> None:
    """Of RabbitMQ, with its plugin."""
    port = free_port()
    settings = {"management.tcp.port": port, "management.tcp.ip": "127.0.0.1"}
    directory = tmp_path / "broker"
    directory.mkdir()
    with running(directory, chosen(), settings, ("rabbitmq_management",)) as node:
        bench = BenchAt(node.port)
        api = BrokerAPI(url=f"http://127.0.0.1:{port}", user="guest", password="guest")
        queue = bench.numbered(3, x_queue_type="quorum", x_delivery_limit=2)
        until(lambda: _answers(api), "the management API")
        assert len(bench.peeked(queue, Given(api=api))) == 3
        assert bench.depth(queue) == 3
        node.ctl("set_policy", "limit", queue, '{"delivery-limit": 1}', "--apply-to", "queues")
        until(lambda: trio.run(_limit, api, queue) == 1, "the policy to hold")


async def _limit(api: BrokerAPI, queue: str) -> int | None:
    return _limit_of(await api.queue("/", queue), PROFILES["4.0"])


def _answers(api: BrokerAPI) -> bool:
    try:
        trio.run(api.queue, "/", "none")
    except APIFailed as error:
        return "404" in str(error)
    return True


def test_headers_tell_which_message_is_returned(bench: BenchAt) -> None:
    source, target = bench.declare(), bench.declare()
    with bench.channel() as channel:
        channel.exchange_declare(f"{target}.x", "headers")
        channel.queue_bind(target, f"{target}.x", arguments={"k": "a"})
    for value in "abab":
        headers = {"z": [1, {"b": 2}], "k": value, "a": True}
        bench.publish(source, [b"same"], headers=headers, priority=3, delivery_mode=2, timestamp=5, expiration="600000")
    report = bench.moved(source, ToExchange(f"{target}.x"))
    assert (report.done, report.left_count, report.uncertain, report.failure) == (2, 2, 0, "")
    for queue, value in ((source, "b"), (target, "a")):
        assert [properties.headers["k"] for _, properties, _ in bench.taken(queue)] == [value, value]
    with bench.channel() as channel:
        channel.exchange_delete(f"{target}.x")


def test_a_message_that_closes_the_channel_stays_alone(bench: BenchAt) -> None:
    """A foreign user_id does it."""
    source, target = bench.numbered(300), bench.declare()

    async def change(message: HeldMessage) -> tuple[Properties, bytes]:
        user = "nobody" if message.body in (b"20", b"50") else None
        return msgspec.structs.replace(message.properties, user_id=user), message.body

    report = bench.moved(source, ToQueue(target), CLASSIC, change=change)
    assert (report.done, report.left_count, report.uncertain, report.failure) == (298, 2, 0, "")
    assert "406" in report.left[0].reason
    assert sorted(bench.bodies(source)) == [b"20", b"50"]
    found = bench.bodies(target)
    assert (len(set(found)), len(found) - 298 <= report.possible_repeats) == (298, True)
