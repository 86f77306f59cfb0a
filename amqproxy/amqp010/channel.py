"""One channel of a connection, and the session attached to it (sections 3.5, 4.4.2 and 9.2)."""

from __future__ import annotations

from amqproxy.amqp010.assembly import AssemblyReader
from amqproxy.amqp010.command_ids import id_of
from amqproxy.amqp010.controls import SessionAttach, SessionAttached, SessionDetach, SessionDetached
from amqproxy.amqp010.errors import (
    IllegalState,
    NotAllowed,
    NotAttached,
    ProtocolError,
    ResourceLimitExceeded,
    TransportBusy,
)
from amqproxy.amqp010.frame import Frame
from amqproxy.amqp010.methods import Control
from amqproxy.amqp010.session import Session
from amqproxy.amqp010.transitions import ATTACHES, ATTACHMENT, SENDERS, SessionState
from amqproxy.peer import CLIENT, Peer

MAX_ATTACHING = 1024
"""Maximum number of unanswered session.attach of one peer on a channel."""

MAX_RETAINED = 65_536
"""Default maximum number of retained detached sessions."""


class Channel:
    """A channel, which exists from its first frame on.

    `sessions` has, for each peer, the session to which its commands belong: they differ while a peer has attached or
    detached a session, and the other peer has not seen that. `retained` has the detached sessions by name, at most
    `most_retained`; channels of one connection, or of several, may share it.
    """

    __slots__ = (
        "_attaching",
        "_is_unread",
        "_positions",
        "_readers",
        "most_retained",
        "number",
        "retained",
        "sessions",
    )

    def __init__(self, number: int, retained: dict[bytes, Session], most_retained: int | None = None) -> None:
        self.number = number
        self.most_retained = MAX_RETAINED if most_retained is None else most_retained
        self.retained = retained
        self.sessions: dict[Peer, Session | None] = dict.fromkeys(Peer)
        self._attaching: dict[Peer, list[Session]] = {peer: [] for peer in Peer}
        self._readers = {peer: AssemblyReader() for peer in Peer}
        self._positions: dict[Peer, int | None] = dict.fromkeys(Peer)
        self._is_unread = dict.fromkeys(Peer, False)

    @property
    def session(self) -> Session | None:
        """Session that the client is attached to."""
        return self.sessions[CLIENT]

    @property
    def is_free(self) -> bool:
        """Whether neither peer is attached or attaching to a session on the channel."""
        return not any(self._attaching.values()) and all(each is None for each in self.sessions.values())

    @property
    def is_settled(self) -> bool:
        """Whether both peers are attached to the same session, with no outstanding answer about it."""
        session = self.session
        return (
            session is not None
            and session.state is SessionState.ATTACHED
            and not session.awaits_timeout
            and not any(self._attaching.values())
            and all(each is session for each in self.sessions.values())
        )

    # --- frames

    def read_control(self, sender: Peer, frame: Frame) -> Control | None:
        """Return the control that a frame of its track completes."""
        assembly = self._readers[sender].add(frame)
        if assembly is None:
            return None
        control: Control = assembly.method
        return control

    def receive_control(self, sender: Peer, control: Control) -> bool:
        """Process a control of the class session; return `False` if it must be discarded."""
        if sender not in SENDERS[control.name]:
            raise NotAllowed(f"{control.name} may not come from the {sender}", section=f"9.2 {control.name}")
        if control.name in ATTACHES:
            self._move(sender, control)
            return True
        session = self._attached_session(sender, control.name)
        if session is None:
            return False
        if control.name in ("session.command-point", "session.gap"):
            self._forget_command(sender)
        session.control(sender, control)
        return True

    def receive_command_frame(self, sender: Peer, frame: Frame) -> bool:
        """Process a frame of a command; return `False` if it must be discarded."""
        if frame.begins_assembly:
            self._forget_command(sender)
            self._is_unread[sender] = not frame.ends_assembly  # until it proves readable
            session = self._attached_session(sender, "a command")
            if session is None:
                return False
            self._positions[sender] = session.streams[sender].begin(is_first=True)
            self._is_unread[sender] = False
        session, position = self.sessions[sender], self._positions[sender]
        if self._is_unread[sender] or session is None or position is None:
            return self._skip_rest(sender, frame, session)
        try:
            assembly = self._readers[sender].add(frame)
        except ProtocolError:
            self._positions[sender] = None
            session.streams[sender].finish(position, None)
            raise
        if assembly is None:
            return session.failed_by is None
        self._positions[sender] = None
        try:
            return session.command(sender, position, assembly)
        except ProtocolError as error:
            error.class_code, error.method_code = assembly.method.class_code, assembly.method.method_code
            error.command_id = id_of(position)
            raise

    def join(self, sender: Peer, command_id: int | None, *, is_mid_command: bool) -> None:
        """Follow the commands of `sender` from now on, of which the next has this id, if known.

        Nothing is known about earlier commands; the rest of an incomplete one is skipped.
        """
        self._is_unread[sender] = is_mid_command
        self._positions[sender] = None
        session = self.sessions[sender]
        if session is not None:
            session.join(sender, command_id)

    def _skip_rest(self, sender: Peer, frame: Frame, session: Session | None) -> bool:
        """Process a frame of an unreadable command: one to discard, or one that began on another channel."""
        if not self._is_unread[sender] and session is not None:
            self._positions[sender] = session.streams[sender].begin(is_first=False)
        position = self._positions[sender]
        self._is_unread[sender] = not frame.ends_assembly
        if frame.ends_assembly:
            self._positions[sender] = None
            if session is not None and position is not None:
                session.streams[sender].finish(position, None)
        return position is not None

    def _forget_command(self, sender: Peer) -> None:
        """Discard an incomplete command."""
        self._is_unread[sender] = False
        if self._positions[sender] is not None:
            self._positions[sender] = None
            session = self.sessions[sender]
            if session is not None:
                session.streams[sender].abort()

    def _attached_session(self, sender: Peer, what: str) -> Session | None:
        """Return the session that `sender` may use; `None` if its commands must be discarded."""
        session = self.sessions[sender]
        if session is not None:
            state = session.state
            if state in (SessionState.ATTACHED, _ATTACHING[sender], _DETACHING[sender.other]):
                return session
            if state is _CUT[sender.other]:
                return None
        raise NotAttached(
            f"{what} from the {sender} on channel {self.number}, to which no session is attached",
            section="9.2 session, attachment",
        )

    # --- attaching and detaching

    def _move(self, sender: Peer, control: Control) -> None:
        match control:
            case SessionAttach():
                self._attach(sender, control.name_ or b"")
            case SessionAttached():
                self._confirm(sender, control.name_ or b"")
            case SessionDetach():
                self._detach(sender, control.name_ or b"")
            case SessionDetached():
                self._end(sender, control.name_ or b"")

    def _attach(self, sender: Peer, name: bytes) -> None:
        session = self.sessions[sender]
        if session is not None and (sender, "session.attach") in ATTACHMENT[session.state]:
            if session.name == name:
                return
            raise TransportBusy(
                f"an attach to {name!r}, where {session.name!r} is attached",
                section="9.2 session.attach, one-session-per-transport",
            )
        attaching = self._attaching[sender]
        if len(attaching) >= MAX_ATTACHING:
            raise ResourceLimitExceeded(f"more than {MAX_ATTACHING} times session.attach without an answer")
        session = self.retained.pop(name, None) or Session(name)
        self._forget_command(sender)
        session.attach(sender)
        attaching.append(session)
        self.sessions[sender] = session

    def _confirm(self, sender: Peer, name: bytes) -> None:
        current = self.sessions[sender]
        if current is not None and current.name == name and (sender, "session.attached") in ATTACHMENT[current.state]:
            return
        waiting = self._attaching[sender.other]
        session = next((each for each in waiting if each.name == name), None)
        if session is None or (sender, "session.attached") not in ATTACHMENT[session.state]:
            raise IllegalState(f"session.attached for {name!r}, which none attaches to", section="9.2 session.attached")
        waiting.remove(session)
        self._forget_command(sender)
        session.state = ATTACHMENT[session.state][sender, "session.attached"]
        self.sessions[sender] = session

    def _detach(self, sender: Peer, name: bytes) -> None:
        session = self.sessions[sender]
        if session is None:
            return  # session.detached with the code not-attached will answer it
        move = ATTACHMENT[session.state].get((sender, "session.detach"))
        if move is None or session.name != name:
            raise NotAttached(
                f"a detach from {name!r}, which the {sender} is not attached to", section="9.2 session.detach"
            )
        self._forget_command(sender)
        self._set_state(session, move)

    def _end(self, sender: Peer, name: bytes) -> None:
        session = self.sessions[sender]
        if session is None or session.name != name:
            waiting = self._attaching[sender.other]
            session = next((each for each in waiting if each.name == name), None)
            if session is None:
                return  # the answer to a control on a channel without a session
            waiting.remove(session)
        move = ATTACHMENT[session.state].get((sender, "session.detached"))
        if move is None:
            return
        self._forget_command(sender)
        self._set_state(session, move)
        if self.sessions[sender] is session:
            self.sessions[sender] = None

    def _set_state(self, session: Session, state: SessionState) -> None:
        session.state = state
        if state is not SessionState.DETACHED:
            return
        for peer in Peer:
            if self.sessions[peer] is session:
                self.sessions[peer] = None
            if session in self._attaching[peer]:
                self._attaching[peer].remove(session)
        self.retain(session)

    def retain(self, session: Session) -> None:
        """Retain a detached session if it has a timeout and has not failed."""
        if session.timeout != 0 and session.failed_by is None and len(self.retained) < self.most_retained:
            self.retained[session.name] = session

    def release(self) -> None:
        """Retain the attached sessions when the connection is lost."""
        for peer in Peer:
            session = self.sessions[peer]
            if session is not None:
                self._set_state(session, SessionState.DETACHED)


_ATTACHING = {CLIENT: SessionState.ATTACHING_BY_CLIENT, CLIENT.other: SessionState.ATTACHING_BY_SERVER}
_DETACHING = {CLIENT: SessionState.DETACHING_BY_CLIENT, CLIENT.other: SessionState.DETACHING_BY_SERVER}
_CUT = {CLIENT: SessionState.CUT_BY_CLIENT, CLIENT.other: SessionState.CUT_BY_SERVER}
