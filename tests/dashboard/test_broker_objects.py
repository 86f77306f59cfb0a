"""Pages of the integrated broker's objects."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from amqproxy.control.proxy_requests import ProxyRequests
from amqproxy.dashboard.broker_objects import object_page, reach_of
from amqproxy.dashboard.policy_reach import ReachCounter, trial_of

pytestmark = pytest.mark.once

USER = {"name": "admin", "tags": ["administrator"], "password_hash": "c2FsdA==", "hashing_algorithm": "sha256"}


async def pieces(*entries: dict[str, Any]) -> AsyncGenerator[list[dict[str, Any]]]:
    yield list(entries)


def test_a_search_does_not_see_the_password_hash_of_a_user() -> None:
    seen: list[dict[str, Any]] = []

    def is_chosen(entry: dict[str, Any]) -> bool:
        seen.append(entry)
        return "c2F" in str(entry)

    page = asyncio.run(object_page(pieces(USER), is_chosen, 0, 10))
    assert seen == [{"name": "admin", "tags": ["administrator"]}]
    assert (page.total, page.filtered, page.objects) == (1, 0, [])


async def never() -> bool:
    return False


async def always() -> bool:
    return True


class Listing:
    """A client of a proxy whose lists are given, each object a piece by itself; `asked` are their kinds."""

    def __init__(self, lists: dict[str, list[dict[str, Any]]]) -> None:
        self.lists = lists
        self.asked: list[str] = []

    async def pieces(self, request: str, *, kind: str, **_: object) -> AsyncGenerator[list[dict[str, Any]]]:
        self.asked.append(kind)
        for each in self.lists[kind]:
            yield [each]


def estate() -> Listing:
    """A policy p applies to a queue and an exchange."""
    held = {"policy": "p", "operator_policy": "p"}
    policy = {"name": "p", "pattern": ".*", "apply-to": "all", "priority": 0}
    return Listing(
        {
            "policies": [policy],
            "operator-policies": [policy],
            "queues": [{"name": "q", "type": "classic", **held}],
            "exchanges": [{"name": "x", **held}],
        }
    )


def reach(
    listing: Listing, name: str, apply_to: str, pattern: str = ".*", *, is_operator: bool = False
) -> dict[str, list[str]]:
    trial = trial_of({"name": name, "pattern": pattern, "apply-to": apply_to, "priority": 1}, is_operator=is_operator)
    found = asyncio.run(reach_of(cast("ProxyRequests", listing), "/", trial, never))
    outcomes = {each: getattr(found, each) for each in ("gained", "kept", "lost", "beaten")}
    return {each: [entry["name"] for entry in named.objects] for each, named in outcomes.items() if named.count}


def test_a_policy_that_is_narrowed_to_one_kind_loses_the_objects_of_the_other() -> None:
    assert reach(estate(), "p", "exchanges") == {"lost": ["q"], "kept": ["x"]}
    assert reach(estate(), "p", "queues") == {"lost": ["x"], "kept": ["q"]}
    assert reach(estate(), "p", "queues", is_operator=True) == {"kept": ["q"]}
    new = estate()
    assert reach(new, "new", "exchanges") == {"gained": ["x"]}
    assert new.asked == ["policies", "exchanges"]


def test_a_reach_is_not_counted_on_for_a_client_that_is_gone() -> None:
    listing = estate()
    trial = trial_of({"name": "n", "pattern": "q", "apply-to": "all", "priority": 1}, is_operator=False)
    assert asyncio.run(reach_of(cast("ProxyRequests", listing), "/", trial, always)) is None
    assert listing.asked == ["policies", "queues"]


def test_names_are_compared_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[int] = set()
    monkeypatch.setattr(ReachCounter, "add_queues", lambda self, entries: threads.add(threading.get_ident()))
    monkeypatch.setattr(ReachCounter, "add_exchanges", lambda self, entries: threads.add(threading.get_ident()))
    assert reach(estate(), "new", "all") == {}
    assert threads
    assert threading.get_ident() not in threads
