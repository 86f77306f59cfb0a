"""Actions that only a 0-10 channel yields."""

from __future__ import annotations

from collections.abc import Sequence

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.frame import Frame
from amqproxy.amqp010.methods import Method
from amqproxy.peer import Peer
from amqproxy.proxy.amqp010.interception.path import Path
from amqproxy.proxy.interception.actions import Action
from amqproxy.taps.note import NOTHING, Note


class Take(Action, frozen=True, gc=False):
    """Process a queued frame before which nothing is queued any more."""

    path: Path
    frame: Frame
    position: int


class Send(Action, frozen=True, gc=False):
    """Forward frames to the peer opposite `sender`, with bits of the first one flipped if there is `damage`."""

    sender: Peer
    frames: Sequence[Frame]
    note: Note = NOTHING
    is_shown: bool = True
    damage: tuple[tuple[int, int], ...] = ()


class Insert(Action, frozen=True, gc=False):
    """Send a command of the proxy `after` seconds from now, once no other command is being sent."""

    to: Peer
    assembly: Assembly
    after: float = 0.0


class SendOwn(Action, frozen=True, gc=False):
    """Send a control or command of the proxy to a peer at once, with its header and body."""

    to: Peer
    assembly: Assembly


class Tell(Action, frozen=True, gc=False):
    """Report to the session a method that a peer has sent and that is not forwarded."""

    sender: Peer
    method: Method


class Resume(Action, frozen=True, gc=False):
    """Continue with the queue of a path, unless a delayed or held command is before it."""

    path: Path


class Forget(Action, frozen=True, gc=False):
    """Forget the channel's session, which has ended; the client's queued frames for the next one are then processed."""

    ended_by: Peer | None = None


class Reopen(Action, frozen=True, gc=False):
    """Process what the client has sent after both peers have detached from the closed session."""
