"""Hashes of passwords, and the decoy that takes as long."""

from __future__ import annotations

import pytest

from amqproxy.proxy.logins.password_hash import MEMORY, PASSES, NotChecked, decoy, hash_password, is_right
from tests.proxy.logins.attempts import quick_hash


@pytest.mark.parametrize("password", ["tulip", "", "\udc80 no UTF-8", "ü" * 1000])
def test_a_password_is_told_from_others(password: str) -> None:
    hashed = quick_hash(password) if password.isprintable() else quick_hash("x")
    assert is_right(hashed, password) is password.isprintable()
    assert not is_right(hashed, password + ".")


def test_a_new_hash_has_the_parameters_of_this_module() -> None:
    hashed = hash_password("tulip")
    assert hashed.startswith(f"$argon2id$v=19$m={MEMORY},t={PASSES},p=1$")
    assert hashed != hash_password("tulip")
    assert is_right(hashed, "tulip")


def test_a_decoy_costs_as_much_and_is_never_right() -> None:
    hashed = quick_hash("tulip")
    assert decoy(hashed).startswith("$argon2id$v=19$m=8,t=1,p=1$")
    assert not is_right(decoy(hashed), "tulip")
    assert not is_right(decoy(hashed), "")
    assert decoy("") == decoy(decoy(""))


def test_a_check_that_fails_is_no_wrong_password() -> None:
    hashed = quick_hash("tulip").replace("t=1,", "t=0,")
    with pytest.raises(NotChecked, match="the password cannot be checked: Time cost is too small"):
        is_right(hashed, "tulip")
