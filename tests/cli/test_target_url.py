"""Passwords of brokers: from the environment, since other users see arguments; and in no error."""

from __future__ import annotations

import pytest

from amqproxy.cli.failure import MISUSED, Failure
from amqproxy.cli.target_url import PASSWORD, credentials_of, target_of
from tests.cli.outcome import Amqproxy


def test_a_password_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD, "s3cret")
    assert target_of("amqp://orders@broker", "replay: --to").password == "s3cret"
    assert target_of("amqp://orders:own@broker", "replay: --to").password == "own"
    assert credentials_of("orders", "mock: --user") == ("orders", "s3cret")
    assert credentials_of("orders:own:1", "mock: --user") == ("orders", "own:1")


def test_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PASSWORD, raising=False)
    assert target_of("amqp://orders@broker", "replay: --to").password == "guest"
    with pytest.raises(Failure, match="USER with the password in AMQPROXY_PASSWORD"):
        credentials_of("orders", "mock: --user")


@pytest.mark.parametrize(
    "arguments",
    [
        ["replay", "x.pcapng", "--to", "amqp://u:s3cret@broker:70000"],
        ["shrink", "x.pcapng", "--until", "true", "-o", "y.pcapng", "--to", "amqp://u:s3cret@broker/?a=1"],
        ["compare", "--replay", "x.pcapng", "amqp://u:s3cret@broker:70000", "amqp://broker"],
    ],
)
def test_no_error_shows_one(arguments: list[str], amqproxy: Amqproxy) -> None:
    code, out, err = amqproxy(*arguments)
    assert (code, out) == (MISUSED, "")
    assert err.startswith(f"amqproxy: {arguments[0]}: ")
    assert "s3cret" not in err
