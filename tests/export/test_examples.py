"""Examples show what a message is like, and no secret."""

from __future__ import annotations

import json

import pytest

from amqproxy.export.examples import MASKED, MAX_ENTRIES, MAX_TEXT, example_of


@pytest.mark.parametrize(
    "value",
    [
        {"password": "hunter2"},
        {"db_passwd": "hunter2"},
        {"user": {"apiKey": "hunter2"}},
        {"Authorization": "hunter2"},
        {"items": [{"access_token": {"value": "hunter2"}}]},
        {"client-secret": ["hunter2"]},
        {"pin": 123456, "sessionId": "hunter2"},
        {"url": "amqp://user:hunter2@host/vhost"},
        {"header": "Bearer hunter2hunter2"},
        {"text": "token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.hunter2 in it"},
        {"text": "4111 1111 1111 1111"},
        {"number": 4111111111111111},
        ["-----BEGIN RSA PRIVATE KEY-----\nhunter2"],
    ],
)
def test_what_looks_like_a_secret_is_masked(value: object) -> None:
    shown = json.dumps(example_of(value))
    assert MASKED in shown
    for secret in ("hunter2", "123456", "4111"):
        assert secret not in shown


def test_what_does_not_is_shown() -> None:
    value = {"id": 17, "at": 1706695200123, "names": ["a", None, True, 1.5], "has_password": True, "key": "order.7"}
    assert example_of(value) == value


def test_an_example_is_small() -> None:
    assert len(example_of("x" * 10_000)) == MAX_TEXT
    assert len(example_of(list(range(10_000)))) == MAX_ENTRIES
    assert len(example_of({str(number): 1 for number in range(10_000)})) == MAX_ENTRIES
    nested: object = 1
    for _ in range(100):
        nested = {"a": [nested]}
    assert len(json.dumps(example_of(nested))) < 200
