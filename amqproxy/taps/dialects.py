"""The protocols that taps observe: their frames, the JSON form of their values, and the counts of their frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from amqproxy.amqp010 import tally as amqp010_tally
from amqproxy.amqp010.methods import Method as Amqp010Method
from amqproxy.amqp010.protocol_header import NAME as AMQP010
from amqproxy.amqp091 import tally as amqp091_tally
from amqproxy.amqp091.protocol_header import NAME as AMQP091
from amqproxy.amqp091.transitions import ANSWERS
from amqproxy.compiled.frame_tally import FrameTally
from amqproxy.taps import record
from amqproxy.taps.amqp010 import credit as amqp010_credit
from amqproxy.taps.amqp010 import record as amqp010_record
from amqproxy.taps.amqp010.transfers import TransferBase
from amqproxy.taps.amqp091.chunk import Amqp091Frames
from amqproxy.taps.credit import CreditChange
from amqproxy.taps.frame_chunk import FrameChunk
from amqproxy.taps.trace.events import CommandMethod, Method

_LISTS = frozenset({list, tuple})


class TallyDialect(NamedTuple):
    """The tally of one protocol's frames, and the `type` and `method` labels of each of its slots."""

    tally: Callable[[], FrameTally]
    labels_of: Callable[[int], tuple[str, str]]


TALLIES = {
    AMQP091: TallyDialect(amqp091_tally.Tally, amqp091_tally.kind_labels),
    AMQP010: TallyDialect(amqp010_tally.Tally, amqp010_tally.kind_labels),
}


def chunk_of(frames: Sequence[Any]) -> FrameChunk[Any]:
    """Return the frames as a chunk; frames that are not in one are of 0-9-1, whose commands are shown one by one."""
    # `isinstance` of an abstract class would take longer than all else that a recorder does with a chunk.
    return Amqp091Frames(frames) if type(frames) in _LISTS else frames  # type: ignore[return-value]


def method_arguments(method: CommandMethod) -> dict[str, Any]:
    """Return a method's fields under the names of its specification, in JSON form, with secrets masked."""
    if isinstance(method, TransferBase):
        method = method.transfer
    return amqp010_record.arguments(method) if isinstance(method, Amqp010Method) else record.arguments(method)


def answered_name(reply: Method) -> str | None:
    """Return the name of the request that a reply answers; `None` if the reply may answer several kinds of requests."""
    return amqp010_record.answered_name(reply) if isinstance(reply, Amqp010Method) else ANSWERS.get(reply.name)


def credit_change(request: object) -> CreditChange | None:
    """Return the change of credit that a request makes; `None` if it makes none, or its protocol has no credit."""
    return amqp010_credit.credit_change(request)


def json_form(value: Any) -> Any:
    """Return the JSON form of a value of a method or a header."""
    return amqp010_record.plain(value)
