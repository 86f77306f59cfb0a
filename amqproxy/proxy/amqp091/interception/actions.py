"""Actions that a `ChannelInterceptor` yields, and that the `ActionExecutor` of its connection carries out.

Each is carried out before the channel interceptor continues.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.methods import Method
from amqproxy.amqp091.transitions import Peer
from amqproxy.proxy.amqp091.interception.channel_direction import ChannelDirection, PostponedDelivery, WaitingCommand
from amqproxy.rules.verdict import Close, Insertion
from amqproxy.taps.note import NOTHING, Note


class Action(msgspec.Struct, frozen=True, gc=False):
    """Something to be done by the owner of a channel."""


class Decide(Action, frozen=True, gc=False):
    """Evaluate the rules for a command of which enough has come; `ChannelInterceptor.carry_out` takes the verdict."""

    direction: ChannelDirection
    command: Command


class Send(Action, frozen=True, gc=False):
    """Send frames on to the peer that `sender` talks to; taps see them with the note, if they are to be shown."""

    sender: Peer
    frames: Sequence[Frame]
    note: Note = NOTHING
    is_shown: bool = True
    is_rest: bool = False
    """The rest of a content that the peer has had the beginning of: it goes on though its channel is closing."""


class SendDamaged(Action, frozen=True, gc=False):
    """Send bytes on that are not a frame any more."""

    sender: Peer
    data: bytes


class ShowToTaps(Action, frozen=True, gc=False):
    """Let taps see frames of `sender` that go no further as they are."""

    sender: Peer
    frames: Sequence[Frame]
    note: Note


class Reply(Action, frozen=True, gc=False):
    """Send a method of our own to a peer, on this channel, at once."""

    to: Peer
    method: Method
    note: Note = NOTHING


class Insert(Action, frozen=True, gc=False):
    """Send a command of our own as soon as it may come, or one that was overtaken, to which the broker gave `tag`."""

    insertion: Insertion
    tag: int | None = None
    note: Note = NOTHING


class Wait(Action, frozen=True, gc=False):
    """Keep a command, and everything behind it in its direction, until it is due or released."""

    direction: ChannelDirection
    waiting: WaitingCommand


class Postpone(Action, frozen=True, gc=False):
    """Have `ChannelOutput.send_postponed` asked when a command has not been overtaken in time."""

    direction: ChannelDirection
    postponed: PostponedDelivery


class Drop(Action, frozen=True, gc=False):
    """Forget what has not gone on in a direction, but for the rest of a content that its receiver has had a part of."""

    direction: ChannelDirection


class Watch(Action, frozen=True, gc=False):
    """Hand over all frames of the channel from here on."""


class Forget(Action, frozen=True, gc=False):
    """Let the channel's number be used again, if neither leg has the channel any more."""


class CloseChannel(Action, frozen=True, gc=False):
    """Close the channel on both legs, because of a command: `ChannelInterceptor.close`."""

    command: Command
    close: Close
    note: Note = NOTHING


class CloseConnection(Action, frozen=True, gc=False):
    """Let the connection end, because of a command of this class and method."""

    close: Close
    class_and_method: tuple[int, int]


class LogVerdict(Action, frozen=True, gc=False):
    """Write a line to the log, at this level."""

    level: str
    text: str
