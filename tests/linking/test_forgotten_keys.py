"""Keys of forgotten messages."""

from __future__ import annotations

import random

import pytest

from amqproxy.linking import forgotten_keys
from amqproxy.linking.forgotten_keys import ForgottenKeys


def test_all_keys_of_a_generation_are_found_and_few_others() -> None:
    chosen = random.Random(1)
    keys = ForgottenKeys()
    added = [hash((chosen.random(), "key")) for _ in range(20_000)]
    for key in added:
        keys.add(key)
    assert all(key in keys for key in added)
    assert sum(hash((chosen.random(), "other")) in keys for _ in range(20_000)) < 100


def test_the_oldest_generation_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgotten_keys, "KEYS", 100)
    keys = ForgottenKeys()
    added = [hash((number, "key")) for number in range(350)]
    for key in added:
        keys.add(key)
    assert all(key in keys for key in added[200:])
    assert not any(key in keys for key in added[:100])
    assert keys.memory_used == 2 << 20
