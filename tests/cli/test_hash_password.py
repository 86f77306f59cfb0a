"""`amqproxy hash-password`."""

from __future__ import annotations

import getpass
import io
import sys

import pytest

from amqproxy.configuration import extras
from amqproxy.proxy.logins.password_hash import is_right
from tests.cli.outcome import Amqproxy


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_first_line_of_standard_input_is_hashed(amqproxy: Amqproxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("tulip ü\nrose\n"))
    code, out, err = amqproxy("hash-password")
    assert (code, err) == (0, "")
    assert is_right(out.strip(), "tulip ü")


def test_a_terminal_is_asked_twice(amqproxy: Amqproxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())
    answers = iter(["tulip", "tulip", "tulip", "rose", "", ""])
    monkeypatch.setattr(getpass, "getpass", lambda _: next(answers))
    assert is_right(amqproxy("hash-password").out.strip(), "tulip")
    code, out, err = amqproxy("hash-password")
    assert (code, out, err) == (2, "", "amqproxy: hash-password: the two passwords differ\n")
    assert amqproxy("hash-password").err == "amqproxy: hash-password: the password is empty\n"


def test_a_password_in_the_arguments_is_refused(amqproxy: Amqproxy) -> None:
    assert amqproxy("hash-password", "tulip").code == 2


def test_without_the_extra_it_is_named(amqproxy: Amqproxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    code, _, err = amqproxy("hash-password")
    assert code == 1
    assert 'needs argon2, which is not installed: run `pip install "amqproxy[logins]"`' in err
