"""What stands between the two legs of a session of AMQP 0-10, as its relays see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import Frame
from amqproxy.amqp091.commands import Command as View
from amqproxy.peer import Peer
from amqproxy.rules.context import Client
from amqproxy.taps.amqp010_chunk import AMQP010Chunk
from amqproxy.taps.note import Note


class AMQP010Passage(Protocol):
    """Takes the frames of each peer, and returns what is sent to either: an `AMQP010PassThrough`, or one with rules.

    It does no input or output; the time is passed in. It shows each leg's `Connection` what changes it. What counts for
    the session itself is handed to the session as it passes: senders, channels and methods, in a list that it is made
    with. If it `is_tapped`, it keeps for the taps what passes. What its `gate` does not let by goes no further.
    """

    is_tapped: bool
    gate: Callable[[Peer, Frame], bool] | None

    @property
    def must_read(self) -> bool:
        """Has the session to end where a peer's bytes cannot be read? Else they pass as they are from there on."""

    @property
    def is_followed(self) -> bool:
        """Do the legs' connections know what has passed?"""

    @property
    def client(self) -> Client:
        """What is known of the client so far."""

    @property
    def shown_client(self) -> Client:
        """The same as logs and operators may see it: as redactions leave it."""

    def covered_method(self, sender: Peer, command: View) -> View | None:
        """A command, by its counterpart of 0-9-1, as logs may show it; None: not at all."""

    def take(self, sender: Peer, frames: list[Frame], now: float) -> None:
        """Take all frames that the sender's reader has found in what it has just been fed.

        `ProtocolError` at the first that may not come, of a passage that `must_read`; those before it have passed then.
        """

    def take_output(self, to: Peer) -> bytes | memoryview:
        """All that is to be sent to a peer now."""

    def take_passed(self, sender: Peer) -> Iterable[tuple[Note, AMQP010Chunk]]:
        """What taps are to see of `sender`, and what they are to know of it."""

    def is_full(self, sender: Peer) -> bool:
        """Is nothing more to be read from a peer for now, since too much that it sent waits here?"""

    @property
    def refusal(self) -> ProtocolError | None:
        """Set when a rule wants the connection closed."""

    def end(self) -> None:
        """The session is over."""
