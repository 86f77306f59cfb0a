"""Logins to brokers, in memory."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from amqproxy.dashboard.auth import LOGIN_SECONDS, MAX_LOGINS
from amqproxy.dashboard.broker_logins import BrokerLogin, BrokerLogins, broker_cookie_name, broker_cookie_of

pytestmark = pytest.mark.once

LOGIN = BrokerLogin(user="guest", password="hush", address="a:1")


def test_a_browser_has_one_login_for_each_source() -> None:
    logins = BrokerLogins(lambda: 0.0)
    cookie = logins.keep("", 0, LOGIN)
    other = BrokerLogin(user="other", password="b")
    assert logins.keep(cookie, 1, other) == cookie
    assert (logins.of(cookie, 0), logins.of(cookie, 1), logins.of(cookie, 2)) == (LOGIN, other, None)
    logins.forget(cookie, 0)
    assert (logins.of(cookie, 0), logins.of(cookie, 1)) == (None, other)
    logins.forget(cookie)
    logins.forget(cookie)
    assert logins.of(cookie, 1) is None


def test_a_cookie_that_the_browser_invents_is_replaced() -> None:
    logins = BrokerLogins(lambda: 0.0)
    assert logins.keep("invented", 0, LOGIN) != "invented"
    assert logins.of("invented", 0) is None


def test_a_login_ends() -> None:
    now = [0.0]
    logins = BrokerLogins(lambda: now[0])
    cookie = logins.keep("", 0, LOGIN)
    now[0] = 1.0
    later = logins.keep("", 0, LOGIN)
    now[0] = LOGIN_SECONDS
    assert logins.of(later, 0) == LOGIN
    assert list(logins._browsers) == [later]  # the other password is not kept either
    assert logins.of(cookie, 0) is None
    assert logins.keep(cookie, 1, LOGIN) != cookie


def test_the_oldest_browsers_are_forgotten() -> None:
    logins = BrokerLogins(lambda: 0.0)
    cookies = [logins.keep("", 0, LOGIN) for _ in range(MAX_LOGINS + 1)]
    assert logins.of(cookies[0], 0) is None
    assert logins.of(cookies[1], 0) == LOGIN


def test_an_owner_has_the_same_user_password_and_address() -> None:
    assert LOGIN.owner == BrokerLogin(user="guest", password="hush", address="a:1", api="http://a").owner
    others = [{"user": "other"}, {"password": "wrong"}, {"address": "b:1"}]
    given = {"user": "guest", "password": "hush", "address": "a:1"}
    assert all(BrokerLogin(**given | each).owner != LOGIN.owner for each in others)


def test_a_password_is_not_shown() -> None:
    assert "hush" not in repr(LOGIN)


def test_the_cookie_is_of_one_port() -> None:
    headers = Headers({"host": "localhost:8672", "cookie": "amqproxy-dashboard-8672-broker=abc"})
    assert (broker_cookie_name(headers), broker_cookie_of(headers)) == ("amqproxy-dashboard-8672-broker", "abc")
