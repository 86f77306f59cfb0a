"""Users of a file: checks of their passwords, and the file when it changes."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import trio

from amqproxy.configuration.config import ConfigError
from amqproxy.proxy.logins import user_directory
from amqproxy.proxy.logins.attempt import LoginDenied
from amqproxy.proxy.logins.credential import Credential
from amqproxy.proxy.logins.fair_turns import FairTurns
from amqproxy.proxy.logins.password_hash import NotChecked
from amqproxy.proxy.logins.user_directory import UserDirectory
from amqproxy.rules.rewriting.secret import Secret
from tests.proxy.logins.attempts import attempt, until, write_users


def write(path: Path, text: str) -> None:
    path.write_text(text)


def directory(path: Path) -> UserDirectory:
    return UserDirectory(str(path), FairTurns(2))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_users(tmp_path / "users.toml", orders="tulip", stock="rose")


async def test_passwords_are_checked(path: Path) -> None:
    found = directory(path)
    identity, remembered = await found.check_password(attempt("orders", "tulip"), "10.0.0.1")
    assert (identity.user, identity.source, identity.credential, remembered) == ("orders", "file", None, 60)
    for user, password, text in [
        ("orders", "rose", "the password is wrong"),
        ("orders", "", "the password is wrong"),
        ("nobody", "tulip", "there is no such user"),
    ]:
        with pytest.raises(LoginDenied, match=text):
            await found.check_password(attempt(user, password), "10.0.0.1")


async def test_a_user_with_only_a_certificate_has_no_password(tmp_path: Path) -> None:
    (tmp_path / "users.toml").write_text("[users.orders]\ncertificate = 'CN=orders'")
    found = directory(tmp_path / "users.toml")
    with pytest.raises(LoginDenied, match="the user has no password"):
        await found.check_password(attempt("orders", ""), "10.0.0.1")
    assert found.users.by_certificate["CN=orders"].name == "orders"


async def test_each_wrong_login_costs_one_check(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with path.open("a") as opened:
        opened.write("[users.machine]\ncertificate = 'CN=machine'\n")
    hashes: list[str] = []
    monkeypatch.setattr(user_directory, "is_right", lambda hashed, _: bool(hashes.append(hashed)))
    found = directory(path)
    for user in ("orders", "nobody", "machine"):
        with pytest.raises(LoginDenied):
            await found.check_password(attempt(user, "x"), "10.0.0.1")
    assert len(hashes) == 3
    assert {each.split("$")[3] for each in hashes} == {"m=8,t=1,p=1"}


def test_logins_to_brokers_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOCK", "of roses")
    (tmp_path / "them").write_text("p4ss\n")
    path = tmp_path / "users.toml"
    path.write_text(
        "[users.orders]\nupstream_user = 'them'\nupstream_password_file = 'them'\n"
        "[users.stock]\nupstream_user = 'us'\nupstream_password_env = 'STOCK'\n"
    )
    found = directory(path).users
    assert found.by_name["orders"].credential == Credential("them", Secret("p4ss"))
    assert found.by_name["stock"].credential == Credential("us", Secret("of roses"))
    (tmp_path / "them").unlink()
    with pytest.raises(ConfigError, match=r"users.toml: users.orders: .*them cannot be read: No such file"):
        directory(path)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    lines: list[tuple[str, dict[str, Any]]] = []

    class Log:
        def __getattr__(self, level: str) -> Any:
            return lambda event, **fields: lines.append((event, fields))

    monkeypatch.setattr(user_directory, "logger", Log)
    return lines


async def test_a_changed_file_is_read_again_and_a_broken_one_is_not(
    path: Path, monkeypatch: pytest.MonkeyPatch, log: list[tuple[str, dict[str, Any]]]
) -> None:
    monkeypatch.setattr(user_directory, "INTERVAL", 0.005)
    found = directory(path)
    changes: list[int] = []
    found.on_change = lambda: changes.append(1)
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(found.run)
            write(path, "[users.orders]\npassword = 'hunter2'")
            await until(lambda: len(log) == 1)
            write(path, "[users.orders]\npassword = 'hunter2'\n\n")
            await trio.sleep(0.05)
            assert [event for event, _ in log] == ["users not reloaded"]
            assert "users.orders.password: it is not an argon2id hash" in log[0][1]["reason"]
            assert "hunter2" not in str(log)
            assert set(found.users.by_name) == {"orders", "stock"}
            assert not changes
            write_users(path, new="tulip")
            await until(lambda: bool(changes))
            assert set(found.users.by_name) == {"new"}
            assert log[1] == ("users reloaded", {"file": str(path), "users": 1})
            nursery.cancel_scope.cancel()


async def test_a_changed_password_for_brokers_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_directory, "INTERVAL", 0.005)
    (tmp_path / "them").write_text("first")
    path = tmp_path / "users.toml"
    path.write_text("[users.orders]\nupstream_user = 'them'\nupstream_password_file = 'them'\n")
    found = directory(path)
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(found.run)
            (tmp_path / "them").write_text("the second")
            expected = Credential("them", Secret("the second"))
            await until(lambda: found.users.by_name["orders"].credential == expected)
            nursery.cancel_scope.cancel()


async def test_checks_leave_the_loop_free_and_are_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, running, most, blocked = threading.Lock(), 0, 0, threading.Event()

    def check(hashed: str, password: str) -> bool:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        blocked.wait(60)
        with lock:
            running -= 1
        return True

    monkeypatch.setattr(user_directory, "is_right", check)
    found = directory(path)
    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(found.check_password, attempt("orders", str(number)), f"10.0.0.{number % 3}")
        await until(lambda: running == 2)
        blocked.set()
    assert most == 2


def test_a_hash_of_the_file_is_in_no_repr(path: Path) -> None:
    text = path.read_text()
    found = directory(path)
    assert "argon2" in text
    assert "argon2" not in repr(found.users.by_name)


async def test_a_check_without_memory_is_a_failure(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(hashed: str, password: str) -> bool:
        raise NotChecked("the password cannot be checked: Memory allocation error")

    monkeypatch.setattr(user_directory, "is_right", fail)
    with pytest.raises(LoginDenied, match="Memory allocation error") as found:
        await directory(path).check_password(attempt("orders", "tulip"), "10.0.0.1")
    assert found.value.is_failure
