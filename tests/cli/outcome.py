"""What became of a command."""

from collections.abc import Callable
from typing import NamedTuple


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


Amqproxy = Callable[..., Outcome]
