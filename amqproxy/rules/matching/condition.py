"""A condition on a command, and how much of the command it needs."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from amqproxy.rules.context import CommandContext
from amqproxy.rules.matching.attributes import AttributeSource
from amqproxy.rules.verdict import Stage


class Condition(msgspec.Struct, frozen=True):
    """Something that holds of a command or does not.

    `source` is what it depends on, the most fleeting of all that it reads; `stage` how much of the command must have
    come; `reads` are the names that it looks at. One that `reads_header_names` looks into the header of a publish for
    nothing but further names (CC, BCC, reply-to): where there are none, it holds if it holds of the method alone.
    """

    source: AttributeSource
    stage: Stage
    reads: frozenset[str]
    holds: Callable[[CommandContext], bool]
    reads_header_names: bool = False
