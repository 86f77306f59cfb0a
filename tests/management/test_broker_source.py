"""Requests to the broker behind the API."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any

import pytest

from amqproxy.control.proxy_requests import MAX_LISTS
from amqproxy.control.request_error import RequestError
from amqproxy.management.broker_source import BrokerFacts, BrokerSource
from amqproxy.management.failure import Failure, refusal
from amqproxy.management.resources.channels import channel
from tests.management.administrator_call import call
from tests.management.fake_broker import FakeBroker, objects

DEADLINE = 30.0

CONNECTION = "127.0.0.1:2 -> 127.0.0.1:1"

CHANNEL = {
    "connection": CONNECTION,
    "channel": 1,
    "user": "guest",
    "vhost": "/",
    "mode": None,
    "prefetch": 0,
    "consumers": 0,
    "unacked": 0,
    "unconfirmed": 0,
    "counts": (0,) * 12,
}


def test_more_requests_than_turns_for_one_channel_are_all_answered(tmp_path: Path) -> None:
    answers = {"channels": objects(CHANNEL), "consumers": objects()}
    fake = FakeBroker(tmp_path / "control.sock", answers)

    async def asked() -> list[Any]:
        async with fake.serving() as source, asyncio.timeout(DEADLINE):
            one = call(source, channel=f"{CONNECTION} (1)")
            return await asyncio.gather(*(channel(one) for _ in range(2 * MAX_LISTS)))

    found = asyncio.run(asked())
    assert [each["consumer_details"] for each in found] == [[]] * (2 * MAX_LISTS)


@pytest.mark.parametrize("name", ["arguments", "properties", "definition"])
def test_the_broker_is_not_sent_an_object_larger_than_a_frame(tmp_path: Path, name: str) -> None:
    fake = FakeBroker(tmp_path / "control.sock", {"broker-change": {"new": True}})
    keys: dict[str, Any] = {name: {"a": [0] * 400}}

    async def asked() -> None:
        async with fake.serving() as source, asyncio.timeout(DEADLINE):
            one = call(source)
            assert (await one.change("any", **keys))["new"]
            keys[name]["a"] *= 2
            with pytest.raises(Failure, match="1000 are the most"):
                await one.change("any", **keys)

    asyncio.run(asked())
    assert fake.asked == ["broker-change"]


def test_requests_at_once_share_one_look_up_of_the_brokers_facts(tmp_path: Path) -> None:
    fake = FakeBroker(tmp_path / "control.sock", {"broker": {"version": "4.3.0", "node": "rabbit@node"}})

    async def asked() -> list[BrokerFacts]:
        async with fake.serving() as source, asyncio.timeout(DEADLINE):
            return await asyncio.gather(*(source.facts() for _ in range(5)))

    found = asyncio.run(asked())
    assert {each.version for each in found} == {(4, 3)}
    assert fake.asked == ["broker"]


def test_a_look_up_that_fails_is_made_again(tmp_path: Path) -> None:
    fake = FakeBroker(tmp_path / "control.sock", {"broker": {"version": "4.3.0", "node": "rabbit@node"}})

    async def asked() -> None:
        async with aclosing(BrokerSource(fake.path)) as source, asyncio.timeout(DEADLINE):
            for failed in await asyncio.gather(source.facts(), source.facts(), return_exceptions=True):
                assert isinstance(failed, RequestError)
                # Clients that are not logged in get this: it does not name files of the machine.
                assert refusal(failed).body["reason"] == "the broker does not answer"
            async with fake.serving():
                assert (await source.facts()).is_4

    asyncio.run(asked())


def test_a_list_waits_for_its_turn_no_longer_than_a_request(tmp_path: Path) -> None:
    fake = FakeBroker(tmp_path / "control.sock", {"queues": objects({"name": "q"})})

    async def asked() -> None:
        async with fake.serving(patience=0.01) as source, asyncio.timeout(DEADLINE):
            held = [source.objects("queues") for _ in range(MAX_LISTS)]
            for each in held:
                await anext(each)
            with pytest.raises(RequestError, match="does not answer"):
                await anext(source.objects("queues"))
            await held.pop().aclose()
            held.append(source.objects("queues"))
            assert await anext(held[-1]) == {"name": "q"}
            for each in held:
                await each.aclose()
            await asyncio.sleep(0)  # the loop closes their sockets

    asyncio.run(asked())


def test_lists_that_are_being_read_leave_turns_for_facts_logins_and_samples(tmp_path: Path) -> None:
    answers = {
        "queues": {"objects": [{}], "more": True},
        "broker": {"version": "4.3.0", "node": "rabbit@node"},
        "broker-login": {"user": None},
        "broker-samples": objects(7),
    }
    fake = FakeBroker(tmp_path / "control.sock", answers)

    async def asked() -> None:
        async with fake.serving() as source, asyncio.timeout(DEADLINE), AsyncExitStack() as lists:
            for _ in range(MAX_LISTS):
                await anext(await lists.enter_async_context(aclosing(source.objects("queues"))))
            assert (await source.facts()).is_4
            await source.ask("broker-login")
            assert [each async for each in source.samples(0)] == [7]

    asyncio.run(asked())


def test_a_connection_is_used_for_one_request_after_another(tmp_path: Path) -> None:
    answers = {"broker-login": {"user": None}, "queues": objects({"name": "q"})}
    fake = FakeBroker(tmp_path / "control.sock", answers)

    async def asked() -> None:
        async with fake.serving() as source, asyncio.timeout(DEADLINE):
            for _ in range(3):
                await source.ask("broker-login")
                assert [each async for each in source.objects("queues")] == [{"name": "q"}]

    asyncio.run(asked())
    assert (fake.accepted, len(fake.asked)) == (1, 6)


def test_facts_are_asked_for_again_after_a_change_even_where_a_look_up_is_under_way(tmp_path: Path) -> None:
    fake = FakeBroker(tmp_path / "control.sock", {"broker": {"version": "4.3.0"}, "broker-change": {"new": True}})

    async def asked() -> None:
        async with fake.serving() as source, asyncio.timeout(DEADLINE):
            before = asyncio.create_task(source.facts())
            await asyncio.sleep(0)
            await call(source).change("any")
            await before
            await source.facts()
            await source.facts()

    asyncio.run(asked())
    assert fake.asked.count("broker") == 2
