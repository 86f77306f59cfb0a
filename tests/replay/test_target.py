"""URLs of brokers."""

from __future__ import annotations

import pytest

from amqproxy.replay.target import Target, TargetError, parse_target


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("amqp://broker", Target(host="broker")),
        ("amqp://broker/", Target(host="broker")),
        ("amqps://broker", Target(host="broker", port=5671, is_tls=True)),
        (
            "amqp://u%40x:p%2F@[::1]:1234/%2F",
            Target(host="::1", port=1234, user="u@x", password="p/", virtual_host="/"),
        ),
        ("amqp://u:@broker/a", Target(host="broker", user="u", password="", virtual_host="a")),
    ],
)
def test_what_a_url_names(url: str, target: Target) -> None:
    assert parse_target(url) == target


@pytest.mark.parametrize(
    ("url", "user", "password"),
    [
        ("amqp://orders@broker", "orders", "s3cret"),
        ("amqp://orders:own@broker", "orders", "own"),
        ("amqp://orders:@broker", "orders", ""),
        ("amqp://broker", "guest", "guest"),
    ],
)
def test_a_user_without_a_password_has_the_one_that_is_given(url: str, user: str, password: str) -> None:
    target = parse_target(url, password="s3cret")
    assert (target.user, target.password) == (user, password)


@pytest.mark.parametrize(
    "url", ["broker:5672", "http://broker", "amqp://", "amqp://broker:70000", "amqp://broker/?a=1"]
)
def test_what_names_no_broker(url: str) -> None:
    with pytest.raises(TargetError):
        parse_target(url)


def test_an_error_does_not_tell_the_password() -> None:
    with pytest.raises(TargetError) as error:
        parse_target("amqp://user:secret@broker:70000")
    assert "secret" not in str(error.value)
