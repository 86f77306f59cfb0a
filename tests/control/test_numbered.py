"""What a request names by its number."""

from __future__ import annotations

import pytest

from amqproxy.control.numbered import numbered, numbered_or_all
from amqproxy.control.request_error import RequestError

REGISTRY = {1: "one", 2: "two"}


def test_one_or_all() -> None:
    assert numbered(REGISTRY, 2) == "two"
    assert numbered_or_all(REGISTRY, 1) == ["one"]
    assert numbered_or_all(REGISTRY, None) == ["one", "two"]


def test_none_is_an_error_at_once() -> None:
    for find in (numbered, numbered_or_all):
        with pytest.raises(RequestError, match="there is no session 3") as error:
            find(REGISTRY, 3)
        assert error.value.name == "no-session"
