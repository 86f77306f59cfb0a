"""Users of a file: what is read, and errors with their place, and without the values."""

from __future__ import annotations

from pathlib import Path

import pytest

from amqproxy.configuration.config import ConfigError
from amqproxy.configuration.users_file import read_users

HASH = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0$" + "A" * 43


def read(tmp_path: Path, text: str, name: str = "users.toml") -> object:
    path = tmp_path / name
    path.write_text(text)
    return read_users(path)


def test_users_are_read_from_both_formats(tmp_path: Path) -> None:
    toml = f"""
[users.orders]
password = "{HASH}"
tags = ["monitoring"]
vhosts = ["/"]
upstream_user = "them"
upstream_password_file = "them.password"
[users."a.b"]
certificate = "CN=a,O=b"
"""
    yaml = f"""
users:
  orders: {{password: "{HASH}", tags: [monitoring], vhosts: [/], upstream_user: them,
           upstream_password_file: them.password}}
  a.b: {{certificate: "CN=a,O=b"}}
"""
    found = read(tmp_path, toml)
    assert found == read(tmp_path, yaml, "users.yaml")
    assert isinstance(found, dict)
    assert found["orders"].upstream_password_file == str(tmp_path / "them.password")


def test_a_file_may_be_empty(tmp_path: Path) -> None:
    assert read(tmp_path, "") == {}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[user.a]", "users.toml: user: unknown key: a table of a user is [users.NAME]"),
        ("users = 1", "users.toml: it needs a table for each user, such as [users.orders]"),
        ("[users.a]\npasword = 'tulip'", "users.toml:1: users.a: unknown key `pasword`: did you mean `password`?"),
        ("[users.a]\ntags = [1]", "users.toml:2: users.a.tags[0]: Expected `str`, got `int`"),
        (
            "[users.a]\n[users.b]\npassword = 'tulip'",
            "users.toml:3: users.b.password: it is not an argon2id hash: make one with `amqproxy hash-password`",
        ),
        (
            "[users.b]\npassword = '$argon2id$v=19$m=8000000,t=2,p=1$c2FsdHNhbHRzYWx0$" + "A" * 43 + "'",
            "users.toml:2: users.b.password: checking it takes 8000000 KiB 2 times: at most 262144 KiB, and"
            " 4194304 KiB in all, are allowed",
        ),
        (
            "[users.a]\nupstream_user = 'a'",
            "users.toml:1: users.a: an `upstream_user` needs either an `upstream_password_file` or an"
            " `upstream_password_env`, which need an `upstream_user`",
        ),
        (
            "[users.a]\ncertificate = 'CN=a'\n[users.b]\ncertificate = 'CN=a'",
            "users.toml:4: users.b.certificate: CN=a is that of a already",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(ConfigError) as found:
        read(tmp_path, text)
    assert str(found.value).removeprefix(f"{tmp_path}/") == fault
    assert "tulip" not in str(found.value)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"users.toml cannot be read: No such file"):
        read_users(tmp_path / "users.toml")
