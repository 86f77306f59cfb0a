"""Checks of logins as configured: who is accepted, how failures are answered, and what is counted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from amqproxy.configuration.login_config import AnonymousLogin, LoginConfig
from amqproxy.proxy.logins.attempt import Identity, LoginDenied
from amqproxy.proxy.logins.configured_login import ConfiguredLogin
from amqproxy.proxy.logins.fair_turns import FairTurns
from amqproxy.proxy.logins.login_check import LoginCheck
from amqproxy.proxy.logins.user_directory import UserDirectory
from tests.proxy.logins.attempts import Counts, attempt

USERS = """
[users.orders]
certificate = "CN=orders"
vhosts = ["/", "orders"]
[users.stock]
"""


@pytest.fixture
def login(tmp_path: Path, counts: Counts) -> ConfiguredLogin:
    path = tmp_path / "users.toml"
    path.write_text(USERS)
    config = LoginConfig(users_file=str(path), mechanisms=("PLAIN", "EXTERNAL"))
    found = ConfiguredLogin(config, counts, users=UserDirectory(str(path), FairTurns(2)))
    check: LoginCheck = found
    assert check.mechanisms == ("PLAIN", "EXTERNAL")
    assert not check.passwords_need_tls
    return found


@pytest.fixture
def passwords(login: ConfiguredLogin, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Passwords checked, each of which takes a second; "tulip" is right."""
    checked: list[str] = []
    assert login._users is not None
    users, turns = login._users, login._users._turns

    async def check(given: Any, network: str) -> tuple[Identity, float]:
        async with turns.turn(network):
            checked.append(given.password.reveal())
            await trio.sleep(1)
        if given.password.reveal() != "tulip":
            raise LoginDenied("the password is wrong", source="file")
        return users.users.by_name[given.user].identity("file"), 60

    monkeypatch.setattr(users, "check_password", check)
    return checked


async def seconds(function: Callable[..., Any], *args: Any) -> float:
    """How long a login took, on the clock of the loop."""
    began = trio.current_time()
    with suppress(LoginDenied):
        await function(*args)
    return trio.current_time() - began


async def test_failures_are_answered_late_and_later(
    autojump_clock: MockClock, login: ConfiguredLogin, passwords: list[str], counts: Counts
) -> None:
    guess = attempt("orders", "rose", address="10.6.6.6")
    assert [round(await seconds(login.check, guess)) for _ in range(6)] == [1, 2, 4, 8, 16, 30]
    assert counts.logins == [("file", "refused")] * 6
    assert round(await seconds(login.check, attempt("orders", "tulip"))) == 1
    assert round(await seconds(login.check, attempt("orders", "tulip", address="10.6.6.6"))) == 0, "remembered"
    assert counts.logins[6:] == [("file", "accepted")] * 2
    assert round(await seconds(login.check, guess)) == 1, "who is in is no guesser"


async def test_a_right_login_is_not_held_up_by_guesses(
    autojump_clock: MockClock, login: ConfiguredLogin, passwords: list[str]
) -> None:
    async def guess(number: int) -> None:
        await seconds(login.check, attempt("orders", f"guess {number}", address="10.6.6.6"))

    async with trio.open_nursery() as nursery:
        for number in range(500):
            nursery.start_soon(guess, number)
        await trio.sleep(10.5)
        assert round(await seconds(login.check, attempt("orders", "tulip", address="10.0.0.1"))) == 1
        assert round(await seconds(login.check, attempt("orders", "tulip", address="10.6.6.6"))) == 0
        nursery.cancel_scope.cancel()


async def test_a_certificate_is_that_of_a_user(
    autojump_clock: MockClock, login: ConfiguredLogin, counts: Counts
) -> None:
    identity = await login.check(attempt("CN=orders", mechanism="EXTERNAL"))
    assert (identity.user, identity.source) == ("orders", "certificate")
    with pytest.raises(LoginDenied, match="no user has this certificate"):
        await login.check(attempt("orders", mechanism="EXTERNAL"))
    assert counts.logins == [("certificate", "accepted"), ("certificate", "refused")]


async def test_without_a_file_the_certificate_names_the_user(autojump_clock: MockClock, counts: Counts) -> None:
    login = ConfiguredLogin(LoginConfig(mechanisms=("EXTERNAL",)), counts)
    assert (await login.check(attempt("CN=a", mechanism="EXTERNAL"))).user == "CN=a"
    with pytest.raises(LoginDenied):
        await login.check(attempt("a", "b"))
    assert counts.logins == [("certificate", "accepted"), ("none", "refused")]


async def test_a_client_without_a_password_is_who_its_network_is(autojump_clock: MockClock, counts: Counts) -> None:
    config = LoginConfig(
        mechanisms=("ANONYMOUS",), anonymous=AnonymousLogin(user="sensors", networks=("10.1.0.0/16", "::1"))
    )
    login = ConfiguredLogin(config, counts)
    for address in ("10.1.2.3", "::1", "::ffff:10.1.2.3"):
        assert login.admits_anonymous(address)
        identity = await login.check(attempt("", mechanism="ANONYMOUS", address=address))
        assert (identity.user, identity.source) == ("sensors", "network")
    for address in ("10.2.0.1", "::2", "a.socket"):
        assert not login.admits_anonymous(address)
        with pytest.raises(LoginDenied, match="not in the networks of anonymous clients"):
            await login.check(attempt("", mechanism="ANONYMOUS", address=address))
    assert counts.logins == [("network", "accepted")] * 3 + [("network", "refused")] * 3


async def test_virtual_hosts_are_those_of_the_file(login: ConfiguredLogin) -> None:
    for user, vhost, expected in [
        ("orders", "/", True),
        ("orders", "orders", True),
        ("orders", "stock", False),
        ("stock", "stock", True),
        ("gone", "/", False),
    ]:
        assert await login.check_vhost(Identity(user, "file"), vhost, "10.0.0.1") is expected, (user, vhost)
    assert await login.check_vhost(Identity("gone", "token"), "/", "10.0.0.1")


async def test_a_change_of_the_file_makes_forget(
    login: ConfiguredLogin, passwords: list[str], autojump_clock: MockClock
) -> None:
    await login.check(attempt("orders", "tulip"))
    await login.check(attempt("orders", "tulip"))
    assert len(passwords) == 1
    assert login._users is not None
    login._users.on_change()
    await login.check(attempt("orders", "tulip"))
    assert len(passwords) == 2


async def test_a_refusal_is_logged_at_once_and_answered_within_the_handshake(
    autojump_clock: MockClock, login: ConfiguredLogin, passwords: list[str]
) -> None:
    guess = attempt("orders", "rose", address="10.6.6.6")
    for _ in range(5):
        await seconds(login.check, guess)
    with capture_logs() as lines, trio.move_on_after(15) as handshake:
        began = trio.current_time()
        with pytest.raises(LoginDenied):
            await login.check(guess)
        assert trio.current_time() - began == pytest.approx(14.5)
    assert not handshake.cancelled_caught
    with capture_logs() as more, trio.move_on_after(2), pytest.raises(LoginDenied):
        await login.check(guess)
    assert [each["event"] for each in lines + more] == ["login refused"] * 2
    assert "rose" not in str(lines)
