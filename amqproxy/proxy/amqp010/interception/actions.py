"""Actions that a 0-10 channel yields besides those of every protocol."""

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
    """Process a frame that has been queued, before which nothing waits any more."""

    path: Path
    frame: Frame
    position: int


class Send(Action, frozen=True, gc=False):
    """Forward frames to the peer that `sender` talks to, with bits of the first one flipped if there is `damage`."""

    sender: Peer
    frames: Sequence[Frame]
    note: Note = NOTHING
    is_shown: bool = True
    damage: tuple[tuple[int, int], ...] = ()


class Insert(Action, frozen=True, gc=False):
    """Send a command of our own, `after` so many seconds, as soon as no other is under way."""

    to: Peer
    assembly: Assembly
    after: float = 0.0


class SendOwn(Action, frozen=True, gc=False):
    """Send a control or command of our own to a peer, with its header and body, at once."""

    to: Peer
    assembly: Assembly


class Tell(Action, frozen=True, gc=False):
    """Tell the session of a method that a peer has sent, and that is not forwarded."""

    sender: Peer
    method: Method


class Resume(Action, frozen=True, gc=False):
    """Continue with the queue of a path, unless a command still waits before it."""

    path: Path


class Forget(Action, frozen=True, gc=False):
    """Forget the session on the channel, which a peer has ended; what the client has sent behind it goes on."""

    ended_by: Peer | None = None


class Reopen(Action, frozen=True, gc=False):
    """Continue with what the client has sent since both peers have detached from the session that was closed."""
