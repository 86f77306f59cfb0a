"""What is kept of a channel, and what that costs."""

from __future__ import annotations

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import QueueDeclare
from amqproxy.conversion.amqp010.command_view import command_view
from amqproxy.peer import CLIENT, SERVER
from amqproxy.proxy.amqp010.interception.encoding import encoded
from amqproxy.proxy.amqp010.interception.path import ChannelPaths, Pending, cost
from amqproxy.proxy.interception.queued_bytes import QueuedBytes
from amqproxy.proxy.interception.waiting_command import WaitingCommand
from amqproxy.proxy.memory_budget import MemoryBudget, MemoryShare
from amqproxy.proxy.timers import Timers
from amqproxy.rules.verdict import HoldAction, Verdict


def test_all_that_is_kept_counts_until_it_is_let_go() -> None:
    share = MemoryShare(MemoryBudget())
    channel = ChannelPaths(1, {peer: QueuedBytes(share) for peer in (CLIENT, SERVER)})
    path = channel.directions[CLIENT]
    assembly = Assembly(1, QueueDeclare("q"))
    frames = encoded(assembly, 0)
    path.gather(frames[0])
    path.gather(frames[0])
    assert path.gathered_size == 2 * frames[0].size
    path.put_behind(frames[0])
    path.enqueue(frames[0], 3)
    view = command_view(CLIENT, assembly)
    assert view is not None
    verdict = Verdict(command=view, delay=1.0, hold=HoldAction("h", 60.0))
    waiting = WaitingCommand(view, verdict, cost(frames), Pending(CLIENT, frames, assembly, 3, view))
    waiting.begin(9, 100.0)
    waiting.timer = Timers().at(waiting.until, lambda: None)
    path.wait(waiting)
    assert (waiting.until, waiting.original, waiting.received.is_complete) == (161.0, view, True)
    assert path.is_held_up
    assert path.is_waiting
    assert share.used == 5 * cost(frames)
    assert path.dequeue() == (frames[0], 3)
    path.clear()
    assert path.is_empty
    assert share.used == path.gathered_size == 0
    assert not waiting.timer.is_due
    path.clear()
    assert share.used == 0


def test_controls_behind_a_command_go_before_what_came_later() -> None:
    share = MemoryShare(MemoryBudget())
    path = ChannelPaths(1, {peer: QueuedBytes(share) for peer in (CLIENT, SERVER)}).directions[CLIENT]
    frames = [encoded(Assembly(1, QueueDeclare(name)), 0)[0] for name in "abc"]
    path.enqueue(frames[2], 3)
    path.put_behind(frames[0])
    path.put_behind(frames[1])
    used = share.used
    path.queue_behind()
    assert share.used == used
    assert [path.dequeue() for _ in range(3)] == [(frames[0], 0), (frames[1], 0), (frames[2], 3)]
    assert share.used == 0
