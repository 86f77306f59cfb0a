"""Tokens that the proxy renews, on a clock that leaps."""

from __future__ import annotations

import math

import pytest
import trio
from trio.testing import MockClock

from amqproxy.proxy.logins.credential import Credential, CredentialFailed, CredentialSource
from amqproxy.proxy.logins.renewed_token import NewToken, RenewedToken
from amqproxy.rules.rewriting.secret import Secret


class FakeIssuer:
    """Issues tokens of a lifetime, unless it is away; each request takes a tenth of a second."""

    def __init__(self, lifetime: float = 60.0) -> None:
        self.lifetime = lifetime
        self.is_away = False
        self.requests: list[float] = []
        self.at_once = self.most = 0
        self.outcomes: list[str] = []
        self.source = RenewedToken("blue", "proxy", self.fetch, self.outcomes.append, now=trio.current_time)

    async def fetch(self) -> NewToken:
        self.requests.append(trio.current_time())
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            await trio.sleep(0.1)
        finally:
            self.at_once -= 1
        if self.is_away:
            raise CredentialFailed("the issuer is away")
        return NewToken(Secret(f"token {len(self.requests)}"), trio.current_time() + self.lifetime)


async def test_a_day_of_tokens_of_a_minute_has_no_gap(autojump_clock: MockClock) -> None:
    issuer = FakeIssuer()
    source: CredentialSource = issuer.source
    got: list[Credential] = []
    source.subscribe(got.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(issuer.source.run)
        connected = await source.current()
        for _ in range(24 * 60 * 6):
            await trio.sleep(10)
            now = trio.current_time()
            newest = got[-1] if got else connected
            assert now + 10 < newest.expires_at, "what a living connection has is valid for a while"
            assert await source.current() == newest
        nursery.cancel_scope.cancel()
    pauses = [after - before for before, after in zip(issuer.requests, issuer.requests[1:], strict=False)]
    assert 36 <= min(pauses) < max(pauses) <= 40.2, "two thirds of a minute, or a little earlier"
    assert issuer.outcomes == ["renewed"] * len(issuer.requests)
    assert issuer.most == 1


async def test_an_issuer_that_is_away_for_less_than_a_lifetime_is_not_missed(autojump_clock: MockClock) -> None:
    issuer = FakeIssuer(lifetime=15 * 60)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(issuer.source.run)
        first = await issuer.source.current()
        await trio.sleep(9 * 60)
        issuer.is_away = True
        for _ in range(5 * 60):
            await trio.sleep(1)
            assert await issuer.source.current() == first
        issuer.is_away = False
        await trio.sleep(30)
        assert (await issuer.source.current()).expires_at > first.expires_at
        nursery.cancel_scope.cancel()
    assert 12 < issuer.outcomes.count("failed") < 40
    assert issuer.most == 1


async def test_without_a_token_logins_fail_at_once_and_ask_nobody(autojump_clock: MockClock) -> None:
    issuer = FakeIssuer()
    issuer.is_away = True
    async with trio.open_nursery() as nursery:
        nursery.start_soon(issuer.source.run)
        for _ in range(100):
            began = trio.current_time()
            with pytest.raises(CredentialFailed, match="the issuer is away"):
                await issuer.source.current()
            assert trio.current_time() - began < 0.2
        assert len(issuer.requests) == 1
        issuer.is_away = False
        await trio.sleep(3)
        assert await issuer.source.current()
        issuer.is_away = True
        await trio.sleep(61)
        with pytest.raises(CredentialFailed, match="the issuer is away"):
            await issuer.source.current()
        nursery.cancel_scope.cancel()


async def test_many_logins_wait_for_the_first_token_together(autojump_clock: MockClock) -> None:
    issuer = FakeIssuer()
    got: list[Credential] = []

    async def log_in() -> None:
        got.append(await issuer.source.current())

    async with trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(log_in)
        nursery.start_soon(issuer.source.run)
        await trio.sleep(1)
        assert len(got) == 100
        nursery.cancel_scope.cancel()
    assert len(issuer.requests) == 1


async def test_a_source_that_does_not_run_fails_in_time(autojump_clock: MockClock) -> None:
    with trio.fail_after(20), pytest.raises(CredentialFailed, match="there is no token after 15 s"):
        await FakeIssuer().source.current()


async def test_after_a_leap_of_the_clock_a_token_is_fetched_at_once(autojump_clock: MockClock) -> None:
    """As after a machine was suspended: timers stood still, and the token has expired."""
    leap = 0.0
    issuer = FakeIssuer(lifetime=600)
    source = RenewedToken("blue", "", issuer.fetch, issuer.outcomes.append, now=lambda: trio.current_time() + leap)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(source.run)
        await source.current()
        await trio.sleep(5)
        leap = 1000.0
        issuer.lifetime += leap
        assert (await source.current()).password.reveal() == "token 2"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("lifetime", "pause"), [(math.inf, 2400.0), (1.0, 1.1), (900.0, 600.1)])
async def test_a_lifetime_decides_about_the_next_request(
    autojump_clock: MockClock, lifetime: float, pause: float
) -> None:
    issuer = FakeIssuer(lifetime)
    source = RenewedToken("b", "", issuer.fetch, issuer.outcomes.append, now=trio.current_time, draw=lambda: 0.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(source.run)
        await trio.sleep(pause + 0.5)
        nursery.cancel_scope.cancel()
    assert issuer.requests[1] - issuer.requests[0] == pytest.approx(pause, abs=0.2)


async def test_a_token_that_has_expired_is_no_token(autojump_clock: MockClock) -> None:
    issuer = FakeIssuer(lifetime=-5)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(issuer.source.run)
        with pytest.raises(CredentialFailed, match="has expired already: compare its clock"):
            await issuer.source.current()
        nursery.cancel_scope.cancel()


async def test_whatever_a_fetch_raises_it_is_called_again(autojump_clock: MockClock) -> None:
    calls: list[float] = []

    async def fetch() -> NewToken:
        calls.append(trio.current_time())
        raise KeyError("region")

    source = RenewedToken("blue", "", fetch, lambda _: None, now=trio.current_time)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(source.run)
        with pytest.raises(CredentialFailed, match="KeyError: 'region'"):
            await source.current()
        await trio.sleep(120)
        nursery.cancel_scope.cancel()
    assert 7 <= len(calls) <= 14
