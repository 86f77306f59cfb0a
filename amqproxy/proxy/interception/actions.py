"""Actions that a channel between the legs yields, and that the `ActionExecutor` of its connection carries out.

Each is carried out before the channel continues. A dialect may have further ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from amqproxy.amqp091.commands import Command
from amqproxy.peer import Peer
from amqproxy.proxy.interception.waiting_command import WaitingCommand
from amqproxy.rules.verdict import Close
from amqproxy.taps.note import NOTHING, Note


class Action(msgspec.Struct, frozen=True, gc=False):
    """An action that the owner of a channel carries out. `direction` is one of the channel's."""


Actions = Iterable[Action]


def damaged(data: bytes, damage: tuple[tuple[int, int], ...]) -> bytes:
    """Return the bytes with bits flipped, given pairs of a byte's position and a bit mask."""
    result = bytearray(data)
    for place, bits in damage:
        result[place % len(result)] ^= bits
    return bytes(result)


class Decide(Action, frozen=True, gc=False):
    """Evaluate the rules for a command, of which enough was received, and carry out the verdict on the channel.

    `received` is the dialect's representation of the command.
    """

    direction: Any
    command: Command
    received: Any = None


class Wait(Action, frozen=True, gc=False):
    """Delay or hold a command, and everything behind it in its direction, until it is due or released."""

    direction: Any
    waiting: WaitingCommand


class Drop(Action, frozen=True, gc=False):
    """Drop everything queued in a direction, except the rest of a content of which the peer has a part."""

    direction: Any


class ShowToTaps(Action, frozen=True, gc=False):
    """Show taps frames of `sender` that are not forwarded unchanged; `position` numbers their command, if any."""

    sender: Peer
    frames: Sequence[Any]
    note: Note
    position: int = 0


class Reply(Action, frozen=True, gc=False):
    """Send a method of the proxy to a peer at once, on this channel."""

    to: Peer
    method: Any
    note: Note = NOTHING


class CloseChannel(Action, frozen=True, gc=False):
    """Close the channel on both legs, because of `cause`: a command, or the dialect's reference to one."""

    cause: Any
    close: Close
    note: Note = NOTHING


class CloseConnection(Action, frozen=True, gc=False):
    """End the connection because of a command of this class and method."""

    close: Close
    class_and_method: tuple[int, int] = (0, 0)


class LogVerdict(Action, frozen=True, gc=False):
    """Write a line to the log at this level."""

    level: str
    text: str
