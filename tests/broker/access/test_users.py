"""Users: RabbitMQ's password hashes, and who may do what by which pattern."""

import pytest

from amqproxy.broker.access.permissions import Permission, TopicPermission
from amqproxy.broker.access.users import User, hash_password


@pytest.mark.parametrize(
    ("algorithm", "hashed"),
    [
        # What rabbitmqctl hash_password, and RabbitMQ's own documentation, give.
        ("rabbit_password_hashing_sha256", "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"),
    ],
)
def test_rabbitmqs_own_hash(algorithm: str, hashed: str) -> None:
    user = User("u", hashed, algorithm)
    assert user.accepts("test12")
    assert not user.accepts("test13")


@pytest.mark.parametrize("kind", ["sha256", "sha512", "md5"])
def test_every_algorithm(kind: str) -> None:
    algorithm = f"rabbit_password_hashing_{kind}"
    hashed = hash_password("sécret", algorithm)
    assert hashed != hash_password("sécret", algorithm)
    user = User("u", hashed, algorithm)
    assert user.accepts("sécret")
    assert not user.accepts("secret")


@pytest.mark.parametrize("hashed", ["", "AAAA", "AAAAAA==", "not base64!"])
def test_without_a_hash_nothing_is_right(hashed: str) -> None:
    assert not User("u", hashed).accepts("")


def test_an_unknown_algorithm() -> None:
    with pytest.raises(ValueError, match="unknown hashing algorithm 'rot13'"):
        User("u", "", "rot13")


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("", "q", False),
        ("", "", True),
        (".*", "q", True),
        ("^q$", "q", True),
        ("^q$", "qq", False),
        ("q", "a queue", True),
        ("^(a|b)-", "b-1", True),
        ("^amq.default$", "amq.default", True),
    ],
)
def test_patterns(pattern: str, name: str, expected: bool) -> None:
    user = User("u", "")
    user.permit("/", Permission(pattern, "", ""))
    assert user.may("/", "configure", name) is expected
    assert not user.may("other", "configure", name)


def test_a_change_holds_at_once() -> None:
    user = User("u", "")
    assert not user.may("/", "read", "q")
    user.permit("/", Permission("", "", "q"))
    assert user.may("/", "read", "q")
    user.permit("/", None)
    assert not user.may("/", "read", "q")


def test_topics() -> None:
    user = User("ann", "")
    assert user.may_use_topic("v", "write", "t", "anything")
    user.permit_topic("v", "t", TopicPermission("^{username}\\.{vhost}$", ""))
    assert user.may_use_topic("v", "write", "t", "ann.v")
    assert not user.may_use_topic("v", "write", "t", "bob.v")
    assert not user.may_use_topic("v", "read", "t", "k")
    assert user.may_use_topic("v", "write", "other", "bob.v")
    user.permit_topic("v", "t", None)
    assert user.may_use_topic("v", "write", "t", "bob.v")
