"""Bounds of what anyone may send to log in, before the password is known to be right."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest

from amqproxy.management.body import MAX_FORM
from amqproxy.management.login import MOST_OF_PASSWORD, MOST_OF_USER
from amqproxy.web import wrong_passwords
from tests.management.local_api import LocalApi


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> LocalApi:
    monkeypatch.setattr(wrong_passwords, "FAILURE_PAUSE", 0.0)
    return LocalApi(monkeypatch)


def form(user: str, password: str) -> bytes:
    return urlencode({"username": user, "password": password}).encode()


def test_a_login_by_form(api: LocalApi) -> None:
    assert api.ask("POST", "login", form("guest", "guest")).status == 200
    assert api.ask("POST", "login", form("guest", "wrong")).status == 401


def test_a_form_is_bounded_while_it_is_read_and_before(api: LocalApi) -> None:
    long = form("guest", "x" * MAX_FORM)
    assert api.ask("POST", "login", long).status == 413
    api.receives = False
    assert api.ask("POST", "login", headers={"content-length": str(MAX_FORM + 1)}).status == 413


def test_no_form_is_read_from_an_address_that_guesses(api: LocalApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wrong_passwords, "MAX_FAILURES", 0)
    monkeypatch.setattr(wrong_passwords, "MAX_FAILING", 0)
    api.receives = False
    assert api.ask("POST", "login").status == 429


@pytest.mark.parametrize(
    ("user", "password"), [("u" * (MOST_OF_USER + 1), "p"), ("guest", "p" * (MOST_OF_PASSWORD + 1))]
)
def test_a_user_or_password_beyond_its_bound_is_wrong_and_does_not_reach_the_broker(
    api: LocalApi, user: str, password: str
) -> None:
    assert api.ask("POST", "login", form(user, password)).status == 401
    assert api.ask("GET", "whoami", user=user, password=password).status == 401
    assert not api.source.logins
