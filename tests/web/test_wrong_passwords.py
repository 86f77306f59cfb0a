"""How long wrong passwords take, and that right ones do not."""

from __future__ import annotations

import asyncio

import pytest

from amqproxy.web import wrong_passwords
from amqproxy.web.wrong_passwords import MAX_FAILURES, TooManyFailures, WrongPasswords


async def wrong() -> str | None:
    await asyncio.sleep(0)
    return None


async def right() -> str | None:
    return "guest"


def test_wrong_passwords_of_one_address_are_bounded_and_keep_nobody_else_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        passwords = WrongPasswords()
        waiting = [asyncio.create_task(passwords.checked("192.0.2.1", wrong)) for _ in range(MAX_FAILURES)]
        for _ in range(3):
            await asyncio.sleep(0)
        with pytest.raises(TooManyFailures):
            await passwords.checked("192.0.2.1", right)
        assert await passwords.checked("198.51.100.1", right) == "guest"
        assert await asyncio.gather(*waiting) == [None] * MAX_FAILURES
        assert await passwords.checked("192.0.2.1", right) == "guest"

    monkeypatch.setattr(wrong_passwords, "FAILURE_PAUSE", 0.001)
    asyncio.run(scenario())
