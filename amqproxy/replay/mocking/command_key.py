"""Keys by which a live command is matched with a recorded one."""

from __future__ import annotations

from typing import Any

from amqproxy.rules.matching.generated_names import shape_of

Key = tuple[Any, ...]
"""The name of a client's method and the names in it: commands with the same key refer to the same object."""


def shape_of_key(key: Key) -> Key:
    """Return a key without the generated parts of its names."""
    return tuple(shape_of(each, certain=True) if isinstance(each, str) else each for each in key)
