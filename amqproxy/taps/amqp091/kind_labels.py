"""Labels of the kinds of 0-9-1 frames that a tally counts."""

from __future__ import annotations

from amqproxy.amqp091.methods import BY_INDEX
from amqproxy.amqp091.tally import KINDS, METHOD_COUNT


def kind_labels(slot: int) -> tuple[str, str]:
    """Return the `type` and `method` labels of a slot of a `Tally`."""
    if slot == KINDS - 1:
        return "heartbeat", ""
    group, index = divmod(slot, METHOD_COUNT)
    if group == 3:
        return ("header", "body")[index], ""
    return ("method", "header", "body")[group], BY_INDEX[index].name
