"""YAML of some hundred bytes whose aliases repeat billions of values."""

from collections.abc import Callable
from itertools import pairwise

KEYS = "abcdefghi"


def bomb(first: str, repeated: Callable[[str], str]) -> str:
    """A document whose every line repeats the line above nine times."""
    lines = [f"a: &a {first}"]
    lines += [f"{key}: &{key} {repeated(', '.join([f'*{before}'] * 9))}" for before, key in pairwise(KEYS)]
    return "\n".join(lines) + "\n"


LISTS = bomb("[x, x, x, x, x, x, x, x, x]", lambda aliases: f"[{aliases}]")
MERGES = bomb("{x: 1}", lambda aliases: f"{{<<: [{aliases}]}}")
