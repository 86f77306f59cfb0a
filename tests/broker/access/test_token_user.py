"""Users of tokens: names, tags, permissions, and renewal."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp091.errors import AccessRefused
from amqproxy.broker.access.permissions import Permission, TopicPermission
from amqproxy.broker.access.token_user import TokenUser
from amqproxy.broker.access.users import LoginRefused, User
from amqproxy.configuration.token_config import BrokerTokens
from amqproxy.rabbitmq.profile import NEWEST, PROFILES


def user_of(*scopes: str, expires_at: float = 200.0, **claims: Any) -> TokenUser:
    made = {"sub": "tina", "scope": [f"rabbitmq.{each}" for each in scopes], **claims}
    settings = BrokerTokens(keys="keys.json")
    return TokenUser(made, settings, expires_at=expires_at, now=100.0, profile=PROFILES[NEWEST])


@pytest.mark.parametrize(
    ("claims", "name"),
    [({}, "tina"), ({"sub": None, "client_id": "app"}, "app"), ({"sub": 5}, "unknown"), ({"sub": ""}, "")],
)
def test_the_first_claim_that_is_a_text_names_it(claims: dict[str, Any], name: str) -> None:
    assert user_of(**claims).name == name


@pytest.mark.parametrize("name", ["x" * 256, "a\nlevel=error"])
def test_a_name_that_nobody_could_read_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="255 characters"):
        user_of(sub=name)


def test_its_rights_are_those_of_the_scopes() -> None:
    user = user_of("tag:management", "read:v/q*", "configure:v/*", "write:v/topic/a.*")
    assert (user.tags, user.lifetime, user.is_internal) == (("management",), 100.0, False)
    assert user.may_enter("v")
    assert not user.may_enter("w")
    assert user.may("v", "read", "q1")
    assert user.may("v", "read", "q1")
    assert not user.may("v", "read", "x")
    assert not user.may("v", "write", "q1")
    user.check_topic("v", "write", "topic", "a.b")
    with pytest.raises(AccessRefused, match=r"topic 'b' in exchange 'topic' in vhost 'v' refused for user 'tina'"):
        user.check_topic("v", "write", "topic", "b")
    user.permit("w", Permission(".*", ".*", ".*"))
    user.permit_topic("v", "topic", TopicPermission("", ""))
    assert not user.may_enter("w")
    assert not user.accepts("")


def test_a_scope_without_a_routing_key_permits_none() -> None:
    assert not user_of("write:*/*").may_use_topic("v", "write", "topic", "a")


def test_a_later_token_replaces_its_rights() -> None:
    user = user_of("read:v/*")
    assert user.may("v", "read", "q")
    generation = user.generation
    user.renew(user_of("write:v/*", "tag:monitoring", expires_at=300.0))
    assert (user.tags, user.lifetime) == (("monitoring",), 200.0)
    assert user.may("v", "write", "q")
    assert not user.may("v", "read", "q")
    assert user.generation > generation
    for other in (user_of(sub="zoe"), User("tina", "")):
        with pytest.raises(LoginRefused, match="not allowed to change username"):
            user.renew(other)
