"""The memory that queued commands are charged for."""

from __future__ import annotations

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BasicPublish
from amqproxy.proxy.interception.queued_bytes import FRAME_COST, QueuedBytes, cost_of_changes, cost_of_own
from amqproxy.proxy.memory_budget import MemoryBudget, MemoryShare
from amqproxy.rules.verdict import Verdict

PUBLISH = Command(1, BasicPublish("", "q"), body=b"x" * 1000)


def test_what_is_queued_is_a_part_of_the_share_until_it_is_removed() -> None:
    share = MemoryShare(MemoryBudget(share_limit=100))
    queued = QueuedBytes(share)
    queued.add(101)
    assert (queued.size, share.used, share.is_over) == (101, 101, True)
    queued.remove(101)
    assert (queued.size, share.used, share.is_over) == (0, 0, False)


def test_a_command_of_our_own_costs_its_body_and_its_frames() -> None:
    assert cost_of_own(PUBLISH) == 1000 + 4 * FRAME_COST


def test_only_what_a_verdict_has_made_is_charged_besides_the_original() -> None:
    made = Command(1, BasicPublish("", "p"), body=b"y")
    assert cost_of_changes(PUBLISH, Verdict(command=PUBLISH)) == 0
    assert cost_of_changes(PUBLISH, Verdict(command=made)) == cost_of_own(made)
