"""Sender of a session: controls, and numbered commands kept for a client that may come back. Section 3.2.

Each command gets a position, which continues to count where its id on the wire wraps around.
"""

from __future__ import annotations

from collections.abc import Generator

from amqproxy.amqp010.command_ids import id_of
from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.controls import SessionCommandPoint, SessionFlush
from amqproxy.amqp010.domains import AcceptMode, AcquireMode
from amqproxy.amqp010.frame import (
    BODY,
    COMMAND,
    FIRST_SEGMENT,
    HEADER,
    LAST_SEGMENT,
    OVERHEAD,
    WHOLE_SEGMENT,
    encode_frame_head,
    encode_method,
    encode_segment,
)
from amqproxy.amqp010.methods import Command, Control
from amqproxy.broker.amqp010.replay import ReplayBuffer, SentCommand
from amqproxy.broker.amqp010.subscription import Subscription
from amqproxy.broker.connections.output import OutputBuffer
from amqproxy.broker.work import Quantum

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

_OVERHEAD = OVERHEAD  # typed in the .pxd file


class SessionSender:
    """Sender of one session, on channel `number`.

    `output` is None while the client is gone: commands sent then are only kept. `position` is that of the next command.
    Commands are kept in the `replay` while the session `keeps` them, until the client has confirmed them. Once it
    `is_over`, it may send nothing more by itself.
    """

    def __init__(self, number: int, output: OutputBuffer) -> None:
        self.number = number
        self.output: OutputBuffer | None = output
        self.position = 0
        self.is_over = False
        self.keeps = False
        self.replay = ReplayBuffer()
        self.awaits_expected = False
        """Whether the returned client has yet to name the commands that it has not received."""
        self._is_pointed = False

    def may_send(self) -> bool:
        """Return whether there is room for another message."""
        output = self.output
        if output is None or self.is_over or self.awaits_expected or not output.has_room:
            return False
        return not (self.keeps and self.replay.is_full)

    def control(self, control: Control) -> None:
        """Send a control; it is not kept."""
        output = self.output
        if output is not None:
            output.put(encode_method(self.number, control, output.frame_max))

    def send(self, command: Command) -> int:
        """Send a command without content; return its position."""
        position = self._next()
        if self.keeps:
            self.replay.keep(position, SentCommand(command.encode()))
        output = self.output
        if output is not None and not self.awaits_expected:
            output.put(encode_method(self.number, command, output.frame_max))
        return position

    def _next(self) -> cython.longlong:
        """Return the position of a command that is sent at once, and advance it."""
        if not self._is_pointed and not self.awaits_expected and self.output is not None:
            self._is_pointed = True
            self.control(SessionCommandPoint(id_of(self.position), 0))
        self.position += 1
        return self.position - 1

    def transfer(self, subscription: Subscription, header: bytes, body: bytes) -> cython.longlong:
        """Send a message to a subscription, while it `may_send`; return the position of the transfer."""
        position: cython.longlong = self._next()
        size: cython.Py_ssize_t = len(body)
        output = self.output
        assert output is not None
        header_size: cython.Py_ssize_t = len(header)
        if header_size != subscription.header_size or size != subscription.body_size or not subscription.head:
            self._prepare(subscription, output, header_size, size)
        if self.keeps:
            self.replay.keep(position, SentCommand(subscription.command, header, body))
        output.put(subscription.head)
        if not subscription.is_header_cut:
            output.put(header)
        else:
            output.put(encode_segment(0, HEADER, self.number, header, output.frame_max))
        if not subscription.is_body_cut:
            output.put(subscription.body_head)
            output.put(body)
        else:
            output.put(encode_segment(LAST_SEGMENT, BODY, self.number, body, output.frame_max))
        return position

    def _prepare(self, subscription: Subscription, output: OutputBuffer, header_size: int, size: int) -> None:
        """Prepare the frame heads that precede a header and a body of these sizes."""
        number, frame_max = self.number, output.frame_max
        if not subscription.command:
            accept = AcceptMode.EXPLICIT if subscription.accepts_explicitly else AcceptMode.NONE
            acquire = AcquireMode.PRE_ACQUIRED if subscription.acquires else AcquireMode.NOT_ACQUIRED
            subscription.command = MessageTransfer(subscription.destination, accept, acquire).encode()
        head = encode_segment(FIRST_SEGMENT, COMMAND, number, subscription.command, frame_max)
        subscription.is_header_cut = header_size + _OVERHEAD > frame_max
        if not subscription.is_header_cut:
            head += encode_frame_head(WHOLE_SEGMENT, HEADER, number, header_size)
        subscription.is_body_cut = size + _OVERHEAD > frame_max
        if not subscription.is_body_cut:
            subscription.body_head = encode_frame_head(LAST_SEGMENT | WHOLE_SEGMENT, BODY, number, size)
        subscription.head, subscription.header_size, subscription.body_size = head, header_size, size

    # --- detaching and resuming

    def detach(self) -> None:
        """Detach from the output: the client is gone."""
        self.output = None
        self._is_pointed = self.awaits_expected = False

    def attach(self, number: int, output: OutputBuffer) -> bool:
        """Attach to the returned client's channel, and ask the client what it has not received.

        False if nothing was sent to it before.
        """
        self.number, self.output = number, output
        if not self.position:
            return False
        self.awaits_expected = True
        self.control(SessionFlush(expected=True))
        return True

    def replaying(self, positions: list[range], quantum: Quantum, now: float) -> Generator[None, float, float]:
        """Send again the commands that the client expects, in steps, until it is gone again."""
        following = -1
        self._is_pointed = True
        for position, command in self.replay.expected(positions):
            output = self.output
            if output is None:
                return now
            if position != following:
                self.control(SessionCommandPoint(id_of(position), 0))
            following = position + 1
            output.put(command.frames(self.number, output.frame_max))
            if quantum.spend(1):
                now = yield
        if following != self.position:
            self.control(SessionCommandPoint(id_of(self.position), 0))
        self.awaits_expected = False
        return now
