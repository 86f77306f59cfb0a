"""A limit from the keys of its config."""

from __future__ import annotations

from typing import Any

import msgspec

from amqproxy.rules.limits.limit import Limit


def limit(**keys: Any) -> Limit:
    return msgspec.convert({"action": "limit", "name": "limited", **keys}, Limit)
