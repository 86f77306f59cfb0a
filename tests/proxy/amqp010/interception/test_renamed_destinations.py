"""Subscriptions that have another destination at the broker."""

from __future__ import annotations

from amqproxy.proxy.amqp010.interception.renamed_destinations import RenamedDestinations
from amqproxy.proxy.interception.queued_bytes import QueuedBytes
from amqproxy.proxy.memory_budget import MemoryBudget, MemoryShare
from tests.proxy.amqp010.interception.amqp010_stage import Amqp010Stage

SUBSCRIBE = ">> 1 message.subscribe queue=a destination={} accept_mode=0 acquire_mode=0"
CANCEL = ">> 1 message.cancel destination={}"


def test_each_counts_until_it_is_forgotten() -> None:
    share = MemoryShare(MemoryBudget())
    names = RenamedDestinations(QueuedBytes(share))
    names.add("a", "t.a")
    used = share.used
    names.add("a", "t.b")
    names.add("c", "c")
    assert share.used == used > 0
    assert (names.get("a"), names.get("c"), len(names)) == ("t.b", None, 1)
    names.remove("a")
    names.remove("a")
    assert share.used == 0
    names.add("a", "t.a")
    names.clear()
    assert (share.used, len(names)) == (0, 0)


def test_a_subscription_is_forgotten_when_it_is_cancelled() -> None:
    stage = Amqp010Stage('action = "rewrite"\nmatch.queue = "a"\nconsumer_tag = "t"\n')
    used = stage.interceptor.share.used
    for number in range(100):
        [sent] = stage.say(SUBSCRIBE.format(f"d{number}"))
        assert "destination=t " in sent
        assert stage.interceptor.share.used > used
        assert stage.say(CANCEL.format(f"d{number}")) == ["=> 1 message.cancel destination=t"]
        assert stage.interceptor.share.used == used
    stage.say("<< 1 session.completed commands=0-199")


def test_those_of_a_session_are_forgotten_with_it() -> None:
    stage = Amqp010Stage('action = "rewrite"\nmatch.queue = "a"\nconsumer_tag = "t"\n')
    stage.say(SUBSCRIBE.format("d"))
    channel = stage.interceptor._table.by_number[1]
    assert len(channel.destinations) == 1
    stage.say(">> 1 session.detach name_=s\n<< 1 session.detached name_=s code=0")
    assert len(channel.destinations) == 0
