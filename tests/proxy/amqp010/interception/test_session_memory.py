"""What sessions count for."""

from __future__ import annotations

import pytest

from amqproxy.amqp010.errors import ResourceLimitExceeded, Scope
from amqproxy.amqp010.session import Session
from amqproxy.peer import Peer
from amqproxy.proxy.amqp010.interception.path import ChannelPaths
from amqproxy.proxy.amqp010.interception.session_memory import CHANNEL_COST, SESSION_COST, SessionMemory
from amqproxy.proxy.interception.queued_bytes import QueuedBytes
from amqproxy.proxy.memory_budget import MemoryBudget, MemoryShare


def channel(number: int, share: MemoryShare) -> ChannelPaths:
    return ChannelPaths(number, {peer: QueuedBytes(share) for peer in Peer})


def test_a_session_costs_while_it_is_there_and_a_channel_for_ever() -> None:
    share = MemoryShare(MemoryBudget(1 << 20))
    memory, first = SessionMemory(share), channel(1, share)
    memory.add_channel()
    memory.begin(first)
    memory.name(first, None)
    assert share.used == CHANNEL_COST + SESSION_COST
    for _ in range(2):
        memory.name(first, Session(b"four"))
    assert share.used == CHANNEL_COST + SESSION_COST + 8
    assert memory.body_limit == (1 << 20) - share.used
    memory.end(first)
    assert share.used == CHANNEL_COST
    memory.begin(channel(0, share))
    assert share.used == CHANNEL_COST


def test_there_is_no_room() -> None:
    memory = SessionMemory(MemoryShare(MemoryBudget(1 << 20, share_limit=CHANNEL_COST)))
    memory.add_channel()
    assert memory.body_limit == 0
    with pytest.raises(ResourceLimitExceeded) as raised:
        memory.add_channel()
    assert raised.value.scope is Scope.CONNECTION
