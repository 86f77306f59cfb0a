"""Actions that only a 0-9-1 channel yields."""

from __future__ import annotations

from collections.abc import Sequence

from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.transitions import Peer
from amqproxy.proxy.amqp091.interception.channel_direction import ChannelDirection, PostponedDelivery
from amqproxy.proxy.interception.actions import Action
from amqproxy.rules.verdict import Insertion
from amqproxy.taps.note import NOTHING, Note


class Send(Action, frozen=True, gc=False):
    """Forward frames to the peer opposite `sender`, and show them to taps with the note if `is_shown`."""

    sender: Peer
    frames: Sequence[Frame]
    note: Note = NOTHING
    is_shown: bool = True
    is_rest: bool = False
    """The rest of a content of which the peer has a part: it is forwarded even if its channel is closing."""


class SendDamaged(Action, frozen=True, gc=False):
    """Forward bytes that are not a frame any more."""

    sender: Peer
    data: bytes


class Insert(Action, frozen=True, gc=False):
    """Send a command of the proxy, or an overtaken delivery with the broker's `tag`, as soon as it is allowed."""

    insertion: Insertion
    tag: int | None = None
    note: Note = NOTHING


class Postpone(Action, frozen=True, gc=False):
    """Schedule `ChannelOutput.send_postponed` for a delivery that is not overtaken in time."""

    direction: ChannelDirection
    postponed: PostponedDelivery


class Watch(Action, frozen=True, gc=False):
    """Hand over all further frames of the channel."""


class Forget(Action, frozen=True, gc=False):
    """Free the channel's number, if the channel has ended on both legs."""
