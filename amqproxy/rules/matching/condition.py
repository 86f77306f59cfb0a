"""A condition on a command, and the part of the command that it needs."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from amqproxy.rules.context import CommandContext
from amqproxy.rules.matching.attributes import AttributeSource
from amqproxy.rules.verdict import Stage


class Condition(msgspec.Struct, frozen=True):
    """A condition that holds for a command or not.

    `source` is the most short-lived source of the attributes that it reads; `stage` is the part of the command that
    must be received; `reads` are the attribute names. A condition that `reads_header_names` reads the header of a
    publish only for further names (CC, BCC, reply-to): without such names, it depends on the method alone.
    """

    source: AttributeSource
    stage: Stage
    reads: frozenset[str]
    holds: Callable[[CommandContext], bool]
    reads_header_names: bool = False
