"""Tokens of addons."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from amqproxy import addons
from amqproxy.proxy.logins import addon_tokens
from amqproxy.proxy.logins.addon_tokens import AddonTokens, check_token_function
from amqproxy.proxy.logins.credential import CredentialFailed
from amqproxy.proxy.logins.renewed_token import NewToken
from amqproxy.rules.rewriting.secret import Secret
from tests.proxy.logins.attempts import until


@pytest.fixture
def tokens(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], AddonTokens]:
    """Tokens for the upstream "blue" of an addon "cloud" that is this function."""

    def of(function: Any) -> AddonTokens:
        monkeypatch.setattr(addons, "loaded", lambda group, check: {"cloud": function})
        return AddonTokens("cloud", "blue", now=lambda: 1000.0)

    return of


async def test_a_function_makes_tokens(tokens: Callable[[Any], AddonTokens]) -> None:
    found = await tokens(lambda upstream: (f"token for {upstream}", 60)).fetch()
    assert found == NewToken(Secret("token for blue"), 1060.0)


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        ("canary", "ValueError: too many values"),
        (("canary\n", 60), "TypeError: its token is not a printable text"),
        ((b"canary", 60), "TypeError: its token is not a printable text"),
        (("canary", "60"), "TypeError: its lifetime is not a number of seconds above 0"),
        (("canary", 0), "TypeError: its lifetime is not a number of seconds above 0"),
        (("canary", float("nan")), "TypeError: its lifetime is not a number of seconds above 0"),
        (None, "TypeError: cannot unpack"),
    ],
)
async def test_what_is_no_token_is_a_failure(tokens: Callable[[Any], AddonTokens], returned: Any, reason: str) -> None:
    with pytest.raises(CredentialFailed, match=f"the addon cloud has failed: {reason}") as found:
        await tokens(lambda _: returned).fetch()
    assert "canary" not in str(found.value)


async def test_what_it_raises_is_a_failure(tokens: Callable[[Any], AddonTokens]) -> None:
    def fail(upstream: str) -> tuple[str, float]:
        raise KeyError("region")

    with pytest.raises(CredentialFailed, match="KeyError: 'region'"):
        await tokens(fail).fetch()


async def test_a_function_that_hangs_is_left(
    tokens: Callable[[Any], AddonTokens], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addon_tokens, "TIMEOUT", 0.05)
    end = threading.Event()
    calls: list[str] = []

    def hang(upstream: str) -> tuple[str, float]:
        calls.append(upstream)
        end.wait(60)
        return "token", 60

    found = tokens(hang)
    for _ in range(2):
        with pytest.raises(CredentialFailed, match=r"has made no token within 0\.05 s"):
            await found.fetch()
    await until(lambda: calls)
    assert calls == ["blue"], "the first call still runs"
    end.set()


def test_the_name_must_be_that_of_an_addon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addons, "loaded", lambda group, check: {"cloud": len})
    with pytest.raises(ValueError, match=r"no installed package has the tokens `clout`: did you mean `cloud`\?"):
        AddonTokens("clout", "blue")
    with pytest.raises(ValueError, match="it is not a function"):
        check_token_function("cloud", 5)
