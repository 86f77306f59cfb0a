"""Logins that are remembered, and those that are checked once for many."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock

from amqproxy.proxy.logins import login_memory
from amqproxy.proxy.logins.attempt import Identity, LoginDenied
from amqproxy.proxy.logins.login_memory import LONGEST, LoginMemory
from tests.proxy.logins.attempts import attempt


class Checker:
    """Checks that take a second, counted."""

    def __init__(self, *, remembered: float = 30.0, expires_at: float = math.inf) -> None:
        self.memory = LoginMemory(trio.current_time, trio.current_time)
        self.checked: list[str] = []
        self._remembered = remembered
        self._expires_at = expires_at

    def of(self, user: str, password: str) -> Callable[[], Awaitable[tuple[Identity, float]]]:
        async def check() -> tuple[Identity, float]:
            self.checked.append(user)
            await trio.sleep(1)
            if password != "tulip":
                raise LoginDenied("wrong", source="file")
            return Identity(user, "file", expires_at=self._expires_at), self._remembered

        return check

    async def log_in(self, user: str, password: str = "tulip", mechanism: str = "PLAIN") -> Identity:
        return await self.memory.recall(attempt(user, password, mechanism=mechanism), self.of(user, password))


@pytest.fixture
def checker() -> Checker:
    return Checker()


async def test_an_accepted_login_is_remembered_for_its_time(autojump_clock: MockClock, checker: Checker) -> None:
    for pause in (0, 29, 0, 31, 0):
        await trio.sleep(pause)
        await checker.log_in("a")
    assert checker.checked == ["a", "a"]
    await checker.log_in("a", mechanism="AMQPLAIN")
    assert checker.checked == ["a", "a"]
    await checker.log_in("a", mechanism="EXTERNAL")
    assert checker.checked == ["a"] * 3


async def test_no_login_is_remembered_longer_than_a_minute(autojump_clock: MockClock) -> None:
    checker = Checker(remembered=math.inf)
    await checker.log_in("a")
    await trio.sleep(LONGEST)
    await checker.log_in("a")
    assert checker.checked == ["a", "a"]


async def test_no_login_is_remembered_after_it_expires(autojump_clock: MockClock) -> None:
    checker = Checker(expires_at=trio.current_time() + 10)
    await checker.log_in("a")
    await trio.sleep(8)
    await checker.log_in("a")
    await trio.sleep(2)
    await checker.log_in("a")
    assert checker.checked == ["a", "a"]


async def test_refused_ones_are_not_remembered(autojump_clock: MockClock, checker: Checker) -> None:
    for _ in range(2):
        with pytest.raises(LoginDenied):
            await checker.log_in("a", "rose")
    assert checker.checked == ["a", "a"]
    assert len(checker.memory) == 0


async def test_the_two_parts_of_a_credential_are_apart(autojump_clock: MockClock, checker: Checker) -> None:
    memory = checker.memory
    assert memory._digest(attempt("ab", "c")) != memory._digest(attempt("a", "bc"))
    assert memory._digest(attempt("a", "b")) != Checker().memory._digest(attempt("a", "b")), "a key for each"
    assert b"tulip" not in memory._digest(attempt("a", "tulip"))


@pytest.mark.parametrize("password", ["tulip", "rose"])
async def test_equal_logins_at_the_same_time_are_checked_once(
    autojump_clock: MockClock, checker: Checker, password: str
) -> None:
    results: list[str] = []

    async def log_in() -> None:
        try:
            results.append((await checker.log_in("a", password)).user)
        except LoginDenied as denied:
            results.append(f"{denied.source}: {denied}")

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(log_in)
    assert checker.checked == ["a"]
    assert results == ["a" if password == "tulip" else "file: wrong"] * 50


async def test_when_the_first_client_goes_the_next_one_checks(autojump_clock: MockClock, checker: Checker) -> None:
    first = trio.CancelScope()
    results: list[str] = []

    async def log_in(scope: trio.CancelScope) -> None:
        with scope:
            results.append((await checker.log_in("a")).user)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(log_in, first)
        await trio.sleep(0.2)
        nursery.start_soon(log_in, trio.CancelScope())
        nursery.start_soon(log_in, trio.CancelScope())
        await trio.sleep(0.2)
        first.cancel()
    assert checker.checked == ["a", "a"]
    assert results == ["a", "a"]


async def test_a_check_from_before_a_change_is_neither_joined_nor_remembered(
    autojump_clock: MockClock, checker: Checker
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(checker.log_in, "a")
        await trio.sleep(0.5)
        checker.memory.forget()
        nursery.start_soon(checker.log_in, "a")
        await trio.sleep(0.6)
        assert len(checker.memory) == 0
    assert checker.checked == ["a", "a"]
    assert len(checker.memory) == 1
    checker.memory.forget()
    await checker.log_in("a")
    assert checker.checked == ["a", "a", "a"]


async def test_the_memory_is_bounded(
    autojump_clock: MockClock, checker: Checker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login_memory, "MAX_ENTRIES", 5)
    for number in range(12):
        await checker.log_in(f"user{number}")
    assert len(checker.memory) == 5
    await checker.log_in("user11")
    assert len(checker.checked) == 12
