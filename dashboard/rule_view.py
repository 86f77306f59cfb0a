"""Commands of 0-10 as rules see them: the method and the names that a rule made by click is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amqproxy.amqp010.assembly import Assembly, AssemblyReader
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import Frame
from amqproxy.amqp010.methods import Method as Amqp010Method
from amqproxy.amqp091.errors import ProtocolError as Amqp091ProtocolError
from amqproxy.amqp091.methods import Method
from amqproxy.conversion.amqp010.command_view import command_view
from amqproxy.dashboard.equivalent_command import equivalent_command
from amqproxy.dashboard.message_ring import Content
from amqproxy.peer import Peer
from amqproxy.taps.amqp010.transfers import TransferBase

_NAMES = ("exchange", "routing_key", "queue")


def message_rule_view(content: Content) -> dict[str, Any] | None:
    """Return a message or request of 0-10 as rules see it; `None` for 0-9-1, whose rows say so themselves."""
    if not isinstance(content.method, TransferBase | Amqp010Method):
        return None
    found = equivalent_command(content)
    return None if found is None else _shown(found.method)


def frame_rule_view(sender: str, frames: Sequence[Frame], place: int) -> dict[str, Any] | None:
    """Return the command that begins with a frame as rules see it; `None` if none begins, or rules see none.

    `frames` are those of its packet; a routing key in a later packet is left out.
    """
    first = frames[place]
    reader = AssemblyReader()
    assembly = None
    try:
        if not first.is_first_frame or first.index < 0:
            return None
        for frame in frames[place:]:
            if frame.channel == first.channel and (assembly := reader.add(frame)) is not None:
                break
        view = command_view(Peer(sender), assembly or Assembly(first.channel, first.method))
        return None if view is None or view.index < 0 else _shown(view.method)
    except (ProtocolError, Amqp091ProtocolError):
        return None


def _shown(method: Method) -> dict[str, Any]:
    names = {name: value for name in _NAMES if isinstance(value := getattr(method, name, None), str)}
    return {"method": method.name, "arguments": names}
