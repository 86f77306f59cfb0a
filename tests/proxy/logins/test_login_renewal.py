"""Further secrets of a client, by the check that its login has now."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.proxy.logins.attempt import Identity, LoginAttempt, LoginDenied
from amqproxy.proxy.logins.login_check import Login
from amqproxy.proxy.logins.login_renewal import LoginRenewal
from amqproxy.proxy.upstream import Unreachable
from amqproxy.rules.context import Client
from amqproxy.rules.rewriting.secret import Secret
from amqproxy.sockets.transport import TransportBroken


class Check:
    """Knows one user, by one password."""

    def __init__(self, user: str, password: str) -> None:
        self.user = user
        self.password = password

    async def check(self, attempt: LoginAttempt) -> Identity:
        if attempt.password.reveal() != self.password:
            raise LoginDenied("wrong")
        return Identity(self.user, "token", expires_at=9.0)


def renewal_of(login: Login, mechanism: str = "PLAIN") -> LoginRenewal:
    attempt = LoginAttempt(mechanism, "", Secret("first"), Client(address="10.0.0.9"))
    return LoginRenewal(login, attempt, Identity("orders", "token"), is_passed_on=False)


async def test_the_present_check_decides() -> None:
    check: Any = Check("orders", "first")
    login = Login(check)
    renewal = renewal_of(login)
    login.check = Check("orders", "next")  # type: ignore[assignment]
    assert await renewal.check(Secret("next")) == Identity("orders", "token", expires_at=9.0)
    with pytest.raises(LoginDenied, match="wrong"):
        await renewal.check(Secret("first"))


async def test_the_user_stays_the_same() -> None:
    check: Any = Check("stock", "next")
    with pytest.raises(LoginDenied, match="the secret is that of stock"):
        await renewal_of(Login(check)).check(Secret("next"))


async def test_no_secret_renews_a_certificate() -> None:
    check: Any = Check("orders", "next")
    assert await renewal_of(Login(check), "EXTERNAL").check(Secret("anything")) is None


@pytest.mark.parametrize("failure", [Unreachable("refused", "nobody listens"), TransportBroken("closed by the broker")])
async def test_a_broker_that_cannot_be_asked_fails_a_renewal(failure: Exception) -> None:
    class Asking:
        async def check(self, attempt: LoginAttempt) -> Identity:
            raise failure

    check: Any = Asking()
    with pytest.raises(LoginDenied) as denied:
        await renewal_of(Login(check)).check(Secret("next"))
    assert denied.value.is_failure
