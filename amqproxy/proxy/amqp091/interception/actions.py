"""Actions that a 0-9-1 channel yields besides those of every protocol."""

from __future__ import annotations

from collections.abc import Sequence

from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.transitions import Peer
from amqproxy.proxy.amqp091.interception.channel_direction import ChannelDirection, PostponedDelivery
from amqproxy.proxy.interception.actions import Action
from amqproxy.rules.verdict import Insertion
from amqproxy.taps.note import NOTHING, Note


class Send(Action, frozen=True, gc=False):
    """Forward frames to the peer that `sender` talks to; taps see them with the note, if they are to be shown."""

    sender: Peer
    frames: Sequence[Frame]
    note: Note = NOTHING
    is_shown: bool = True
    is_rest: bool = False
    """The rest of a content whose beginning the peer has received: it goes on though its channel is closing."""


class SendDamaged(Action, frozen=True, gc=False):
    """Forward bytes that are not a frame any more."""

    sender: Peer
    data: bytes


class Insert(Action, frozen=True, gc=False):
    """Send a command of our own as soon as it may come, or one that was overtaken, to which the broker gave `tag`."""

    insertion: Insertion
    tag: int | None = None
    note: Note = NOTHING


class Postpone(Action, frozen=True, gc=False):
    """Have `ChannelOutput.send_postponed` asked when a command has not been overtaken in time."""

    direction: ChannelDirection
    postponed: PostponedDelivery


class Watch(Action, frozen=True, gc=False):
    """Hand over all frames of the channel from here on."""


class Forget(Action, frozen=True, gc=False):
    """Free the channel's number, if neither leg has the channel any more."""
