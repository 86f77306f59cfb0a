"""Labels of the kinds of 0-10 frames that a tally counts."""

from __future__ import annotations

from amqproxy.amqp010.domains import SegmentType
from amqproxy.amqp010.methods import BY_INDEX
from amqproxy.amqp010.tally import METHOD_COUNT


def kind_labels(slot: int) -> tuple[str, str]:
    """Return the `type` and `method` labels of a slot of a `Tally`; types are control, command, header and body."""
    group, index = divmod(slot, METHOD_COUNT)
    if group == 3:
        return SegmentType(index).name.lower(), ""
    method = BY_INDEX[index]
    return (method.segment.name.lower(), "header", "body")[group], method.name
