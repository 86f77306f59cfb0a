"""Pages of the integrated broker's objects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from amqproxy.dashboard.broker_objects import object_page

pytestmark = pytest.mark.once

USER = {"name": "admin", "tags": ["administrator"], "password_hash": "c2FsdA==", "hashing_algorithm": "sha256"}


async def pieces(*entries: dict[str, Any]) -> AsyncGenerator[list[dict[str, Any]]]:
    yield list(entries)


def test_a_search_does_not_see_the_password_hash_of_a_user() -> None:
    seen: list[dict[str, Any]] = []

    def is_chosen(entry: dict[str, Any]) -> bool:
        seen.append(entry)
        return "c2F" in str(entry)

    page = asyncio.run(object_page(pieces(USER), is_chosen, 0, 10))
    assert seen == [{"name": "admin", "tags": ["administrator"]}]
    assert (page.total, page.filtered, page.objects) == (1, 0, [])
