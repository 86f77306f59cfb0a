"""Users of tokens: names, tags, permissions, and renewal."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from amqproxy.amqp091.errors import AccessRefused
from amqproxy.broker.access import token_scopes
from amqproxy.broker.access.permissions import Permission, TopicPermission
from amqproxy.broker.access.token_scopes import expanded
from amqproxy.broker.access.token_user import MOST_VHOSTS, TokenUser
from amqproxy.broker.access.users import MAX_VERDICTS, LoginRefused, User
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


def test_scopes_are_parsed_once_but_for_those_with_the_virtual_host(monkeypatch: pytest.MonkeyPatch) -> None:
    expansions: list[str] = []

    def counted(scope: str, claims: dict[str, Any], vhost: str) -> str:
        expansions.append(scope)
        return expanded(scope, claims, vhost)

    monkeypatch.setattr(token_scopes, "expanded", counted)
    user = user_of("read:{vhost}/*", *(f"write:a{number}/*" for number in range(99)))
    vhosts = [f"v{number}" for number in range(100)]
    assert [user.may_enter(each) for each in vhosts] == [True] * 100
    assert all(user.may(each, "read", "q") for each in vhosts)
    assert not any(user.may(each, "write", "q") for each in vhosts)
    assert Counter(expansions).most_common(2) == [("read:{vhost}/*", 300), ("write:a0/*", 1)]
    assert len(user._grants) <= MOST_VHOSTS


def test_a_routing_key_is_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    user = user_of("write:*/*/a.*")
    assert user.may_use_topic("v", "write", "x", "a.b")
    with monkeypatch.context() as patch:
        patch.setattr(TokenUser, "_grants_in", None)
        user.check_topic("v", "write", "x", "a.b")
    user.renew(user_of("write:*/*/c.*"))
    assert not user.may_use_topic("v", "write", "x", "a.b")
    for number in range(2 * MAX_VERDICTS):
        user.may_use_topic("v", "write", "x", f"c.{number}")
    assert len(user._topic_verdicts) <= MAX_VERDICTS
