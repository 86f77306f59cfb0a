"""Passes over queues of the integrated broker: windows, limits, failures in the middle."""

from __future__ import annotations

import errno
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec
import pika
import pika.exceptions
import pytest
import trio

from amqproxy.amqp091.properties import Properties
from amqproxy.moving.message_forwarder import MoveFailed
from amqproxy.rabbitmq.profile import PROFILES
from amqproxy.sockets.transport import TransportBroken
from amqproxy.workbench import runs
from amqproxy.workbench.batch_failure import BatchFailure
from amqproxy.workbench.batch_journal import BatchJournal, QueueBusy
from amqproxy.workbench.confirming_publisher import ConfirmingPublisher
from amqproxy.workbench.destination import ToExchange, ToQueue
from amqproxy.workbench.edit import Edit
from amqproxy.workbench.held_message import HeldMessage
from amqproxy.workbench.queue_facts import QueueFacts
from amqproxy.workbench.queue_pass import KEPT, Outcome
from amqproxy.workbench.queue_reader import QueueReader
from tests.workbench.bench_queue import BenchAt, Ends

Bodies = list[bytes]


def numbers(*given: int) -> Bodies:
    return [b"%d" % number for number in given]


def test_a_window_bounds_how_deep_it_looks(bench: BenchAt) -> None:
    source, target = bench.numbered(10), bench.declare()
    report = bench.moved(source, ToQueue(target), where="headers.n >= 3", window=2)
    assert (report.looked_at, report.done, report.is_window_full, report.not_looked_at) == (2, 0, True, 8)
    report = bench.moved(source, ToQueue(target), where="headers.n >= 3", window=3)
    assert (report.looked_at, report.done, report.is_window_full) == (3, 0, True)
    report = bench.moved(source, ToQueue(target), where="headers.n >= 3", window=4)
    assert (report.looked_at, report.done, report.is_window_full) == (10, 7, False)
    assert bench.bodies(source) == numbers(0, 1, 2)
    assert bench.bodies(target) == numbers(*range(3, 10))


def test_a_limit_touches_no_more_than_it_needs(bench: BenchAt) -> None:
    source, target = bench.numbered(5), bench.declare()
    report = bench.moved(source, ToQueue(target), limit=2)
    assert (report.looked_at, report.done, report.not_looked_at) == (2, 2, 3)
    rest = bench.taken(source)
    assert [body for _, _, body in rest] == numbers(2, 3, 4)
    assert not any(method.redelivered for method, _, _ in rest)


def test_a_limit_counts_chosen_messages(bench: BenchAt) -> None:
    source, target = bench.numbered(10), bench.declare()
    assert bench.moved(source, ToQueue(target), where="headers.n > 4", limit=2).done == 2
    assert bench.bodies(target) == numbers(5, 6)
    assert bench.bodies(source) == numbers(0, 1, 2, 3, 4, 7, 8, 9)


def test_a_dry_run_leaves_all(bench: BenchAt) -> None:
    source = bench.numbered(5)
    report = bench.moved(source, ToExchange("", "somewhere"), is_dry_run=True, where="headers.n < 2")
    assert (report.chosen, report.done, report.places) == (2, 2, {"exchange '', routing key 'somewhere'": 2})
    assert bench.bodies(source) == numbers(*range(5))


def test_a_dry_run_names_a_target_that_does_not_exist(bench: BenchAt) -> None:
    source = bench.numbered(1)
    assert "404" in bench.moved(source, ToQueue("none"), is_dry_run=True).failure
    assert "404" in bench.moved(source, ToExchange("none"), is_dry_run=True).failure
    assert bench.bodies(source) == numbers(0)


def test_messages_on_which_the_filter_fails_stay(bench: BenchAt) -> None:
    source, target = bench.declare(), bench.declare()
    bench.publish(source, [b"1"], headers={"n": "text"})
    bench.publish(source, [b"2"], headers={"n": 5})
    report = bench.moved(source, ToQueue(target), where="headers.n > 4")
    assert (report.done, report.unreadable, report.is_complete) == (1, 1, False)
    assert "message 0" in bench.warnings[0]
    assert bench.bodies(source) == [b"1"]


def test_the_next_run_counts_what_a_killed_one_left_on_both_sides(bench: BenchAt) -> None:
    source, target = bench.numbered(600), bench.declare()
    assert bench.settled(source, Ends(bench, target), limit=300).failure == "killed"
    assert bench.depth(source) == 600
    report = bench.moved(source, ToQueue(target))
    assert (report.done, report.possible_repeats) == (600, 256)
    assert "256 of its messages" in bench.warnings[0]
    assert len(bench.taken(target)) == 856
    bench.publish(source, numbers(0))
    assert bench.moved(source, ToQueue(target)).possible_repeats == 0


def test_what_the_broker_returns_late_is_known_again(bench: BenchAt) -> None:
    """It may not know yet that the connection of a killed run is dead: a whole pass sees nothing of what that held."""
    source, target = bench.numbered(3), bench.declare()
    bench.settled(source, Ends(bench, target))
    with bench.channel() as holder:
        for _ in range(2):
            holder.basic_get(source)
        assert bench.moved(source, ToQueue(target)).possible_repeats == 1
    assert bench.moved(source, ToQueue(target)).possible_repeats == 2


def test_what_is_not_returned_for_long_is_forgotten(bench: BenchAt) -> None:
    source, target = bench.numbered(1), bench.declare()
    bench.settled(source, Ends(bench, target))
    bench.taken(source)
    assert bench.state is not None
    (journal,) = (bench.state / "batches").iterdir()
    os.utime(journal, (0, 0))
    for _ in range(2):
        bench.moved(source, ToQueue(target))
    assert len(bench.warnings) == 1


def test_dead_letters_of_a_quorum_queue_are_known_again(bench: BenchAt) -> None:
    """Its counts change with each return."""
    source, target = bench.numbered(3, x_queue_type="quorum"), bench.declare()
    bench.peeked(source)
    bench.settled(source, Ends(bench, target))
    bench.peeked(source)
    assert bench.moved(source, ToQueue(target), where="headers.n > 0").possible_repeats == 2
    assert bench.moved(source, ToQueue(target)).possible_repeats == 1


def test_two_runs_over_one_queue_are_refused(bench: BenchAt) -> None:
    source = bench.numbered(1)
    assert bench.state is not None
    with (
        BatchJournal(bench.state / "batches", f"127.0.0.1:{bench.port}", "/", source),
        pytest.raises(QueueBusy),
    ):
        bench.moved(source, ToExchange("", "x"))
    assert bench.depth(source) == 1


def test_a_stop_ends_it_after_a_batch(bench: BenchAt) -> None:
    source, target = bench.numbered(600), bench.declare()

    class Stops:
        uncertain = 0

        async def settle(self, messages: Sequence[HeldMessage]) -> Sequence[Outcome]:
            running[0].stop()
            return [KEPT] * len(messages)

    running: list[BenchAt] = []
    report = bench.settled(source, Stops(), begun=running.append)
    assert (report.looked_at, report.is_interrupted) == (256, True)
    assert len(bench.bodies(source)) == 600
    assert bench.depth(target) == 0


def test_an_audit_says_who_did_what(bench: BenchAt, tmp_path: Path) -> None:
    source = bench.numbered(1)
    bench.moved(source, ToExchange("", source), limit=1)
    assert bench.state is not None
    begun, ended = map(msgspec.json.decode, (bench.state / "audit.jsonl").read_bytes().splitlines())
    assert (begun["event"], begun["queue"], begun["command"], begun["run"]) == ("begun", source, "move", ended["run"])
    assert (ended["event"], ended["done"]) == ("ended", 1)


def test_counts_of_runs_that_were_killed_as_well_are_kept(bench: BenchAt) -> None:
    source, target = bench.numbered(300), bench.declare()
    assert bench.settled(source, Ends(bench, target)).failure == "killed"
    again = bench.settled(source, Twice(bench, target))
    assert (again.done, again.possible_repeats, again.failure) == (256, 256, "killed")
    report = bench.moved(source, ToQueue(target))
    assert (report.done, report.possible_repeats) == (44, 256 + 44)
    assert len(bench.taken(target)) == 600
    bench.publish(source, numbers(0))
    assert bench.moved(source, ToQueue(target)).possible_repeats == 0


class Twice(Ends):
    """It ends at its second batch."""

    async def settle(self, messages: Sequence[HeldMessage]) -> Sequence[Outcome]:
        if messages[0].position:
            return await super().settle(messages)
        self.bench.publish(self.target, [message.body for message in messages])
        return [""] * len(messages)


@pytest.mark.parametrize("exchange", ["", "amq.fanout"])
def test_an_edit_of_a_queue_with_priorities_edits_each_message_once(bench: BenchAt, exchange: str) -> None:
    """Copies go in front of messages of lower priority, and are got again."""
    source = bench.declare(x_max_priority=9)
    with bench.channel() as channel:
        channel.queue_bind(source, "amq.fanout")
    for priority in (5, 1):
        bench.publish(source, numbers(*range(300)), exchange, priority=priority)
    with bench.channel() as channel:
        channel.queue_unbind(source, "amq.fanout")
    report = bench.moved(source, ToQueue(source), change=Edit(headers={"edited": 1}).of, window=100)
    assert (report.is_window_full, report.is_complete, report.not_looked_at > 0) == (True, False, True)
    where = "!has(headers.edited)"
    assert bench.moved(source, ToQueue(source), change=Edit(headers={"edited": 1}).of, where=where).is_complete
    found = bench.taken(source)
    assert len(found) == 600
    assert all(properties.headers == {"edited": 1} for _, properties, _ in found)


def test_an_audit_that_cannot_be_written_duplicates_nothing(bench: BenchAt) -> None:
    source, target = bench.numbered(3), bench.declare()

    def note(message: HeldMessage) -> None:
        raise MoveFailed("audit audit.jsonl: No space left on device")

    report = bench.moved(source, ToQueue(target), note=note)
    assert (report.failure, report.done) == ("audit audit.jsonl: No space left on device", 3)
    assert (bench.bodies(source), bench.bodies(target)) == ([], numbers(0, 1, 2))


def test_a_journal_that_cannot_be_written_is_named(bench: BenchAt, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = bench.numbered(1), bench.declare()

    def fail(file: int, data: bytes, place: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", fail)
    failure = bench.moved(source, ToQueue(target)).failure
    assert (failure.startswith("journal "), failure.endswith("No space left on device")) == (True, True)
    assert (bench.bodies(source), bench.bodies(target)) == (numbers(0), [])


def test_a_message_that_the_target_does_not_take_does_not_block_the_others(bench: BenchAt) -> None:
    """A foreign user_id closes the channel."""
    source, target = bench.declare(), bench.declare()

    def forged(message: HeldMessage) -> Properties:
        return msgspec.structs.replace(message.properties, user_id="nobody" if message.body in (b"2", b"5") else None)

    async def change(message: HeldMessage) -> tuple[Properties, bytes]:
        return forged(message), message.body

    bench.publish(source, numbers(*range(8)))
    report = bench.moved(source, ToQueue(target), change=change)
    assert (report.done, report.left_count, report.uncertain, report.failure) == (6, 2, 0, "")
    assert "406" in report.left[0].reason
    assert bench.bodies(source) == numbers(2, 5)
    found = bench.bodies(target)
    assert sorted(set(found)) == numbers(0, 1, 3, 4, 6, 7)
    assert len(found) - 6 <= report.possible_repeats


def test_headers_decide_which_message_is_returned(bench: BenchAt) -> None:
    source, target = bench.declare(), bench.declare()
    with bench.channel() as channel:
        channel.exchange_declare(f"{target}.x", "headers")
        channel.queue_bind(target, f"{target}.x", arguments={"k": "a"})
    for value in ("a", "b", "a", "b"):
        bench.publish(source, [b"same"], headers={"k": value})
    report = bench.moved(source, ToExchange(f"{target}.x"))
    assert (report.done, report.left_count) == (2, 2)
    for queue, value in ((source, "b"), (target, "a")):
        assert [properties.headers["k"] for _, properties, _ in bench.taken(queue)] == [value, value]


def test_what_is_confirmed_when_a_batch_fails_is_acknowledged(bench: BenchAt) -> None:
    source = bench.numbered(4)

    class Fails:
        uncertain = 1

        async def settle(self, messages: Sequence[HeldMessage]) -> Sequence[Outcome]:
            raise BatchFailure("lost", ["", None, "no place", ""])

    report = bench.settled(source, Fails())
    assert (report.done, report.left_count, report.uncertain, report.failure) == (2, 1, 1, "lost")
    assert bench.bodies(source) == numbers(1, 2)


def test_acknowledgements_that_may_be_lost_are_uncertain(bench: BenchAt, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost(self: QueueReader, messages: list[HeldMessage]) -> None:
        raise TransportBroken("closed by the broker")

    async def silent(self: QueueReader) -> None:
        raise TransportBroken("closed by the broker")

    source, target = bench.numbered(3), bench.declare()
    with monkeypatch.context() as patch:
        patch.setattr(QueueReader, "acknowledge", lost)
        report = bench.moved(source, ToQueue(target))
    assert (report.done, report.uncertain) == (0, 3)
    with monkeypatch.context() as patch:
        patch.setattr(QueueReader, "depth", silent)
        patch.setattr(runs, "queue_facts", facts_of(3))
        report = bench.moved(source, ToQueue(target))
    assert (report.done, report.uncertain) == (0, 3)
    assert bench.depth(target) == 6


def facts_of(depth: int) -> Callable[..., Awaitable[QueueFacts]]:
    async def facts(link: object, vhost: str, name: str, given: object) -> QueueFacts:
        return QueueFacts(
            name=name,
            vhost=vhost,
            type="classic",
            messages=depth,
            consumers=0,
            delivery_limit=None,
            is_limit_known=True,
            profile=PROFILES["4.3"],
        )

    return facts


def test_a_run_into_the_same_queue_takes_nothing_from_another_one(bench: BenchAt) -> None:
    first, second, target = bench.numbered(2), bench.numbered(2), bench.declare()

    async def change(message: HeldMessage) -> tuple[Properties, bytes]:
        if message.position == 0:
            with pytest.raises(QueueBusy):
                await trio.to_thread.run_sync(bench.moved, first, ToQueue(target))
            assert (await trio.to_thread.run_sync(bench.moved, second, ToQueue(target))).done == 2
        return message.properties, message.body

    report = bench.moved(first, ToQueue(target), change=change)
    assert (report.done, report.failure) == (2, "")
    found = bench.taken(target)
    assert [body for _, _, body in found] == numbers(0, 1, 0, 1)
    for exchange in {method.exchange for method, _, _ in found}:
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="NOT_FOUND"), bench.channel() as channel:
            channel.exchange_declare(exchange, passive=True)


def test_a_refused_run_changes_nothing_at_the_target(bench: BenchAt) -> None:
    source = bench.numbered(1)

    class Untouched(ToQueue):
        async def begin(self, publisher: ConfirmingPublisher) -> None:
            raise AssertionError

    assert bench.state is not None
    with (
        BatchJournal(bench.state / "batches", f"127.0.0.1:{bench.port}", "/", source),
        pytest.raises(QueueBusy),
    ):
        bench.moved(source, Untouched(source))
