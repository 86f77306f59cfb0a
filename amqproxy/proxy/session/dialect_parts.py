# ruff: noqa: B027 - a dialect may do without most of the hooks
"""The protocol-specific parts of a session's traffic, which each dialect implements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.peer import Peer
from amqproxy.proxy.leg import Leg
from amqproxy.proxy.logins.handshake import LoginHandshake
from amqproxy.proxy.mirroring.mirror_publisher import MirrorLogin
from amqproxy.proxy.session.farewell import Farewell
from amqproxy.proxy.session.packed_leg import PackedLeg
from amqproxy.proxy.session.relay import Direction
from amqproxy.pump.pumps import AnyPumped
from amqproxy.rules.context import Client
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.rewriting.secret import Secret
from amqproxy.rules.verdict import Close
from amqproxy.taps.metering.channel_snapshots import ChannelSnapshots
from amqproxy.taps.topology.client_requests import ChannelView, ClientRequests
from amqproxy.taps.trace.snapshot import HandshakeSnapshot, RequestSnapshot

OpenState = tuple[ChannelSnapshots, tuple[RequestSnapshot, ...]]
"""Reader of the state of a client's channels, and the unanswered requests of its connection."""


class DialectParts(ABC):
    """The protocol-specific base of `Traffic`: what a third protocol has to implement."""

    PROTOCOL: ClassVar[str]
    """The protocol's name in records and on the control socket."""

    ERROR: ClassVar[type[Exception]] = ProtocolError
    """The exception class for violations of this protocol."""

    HEARTBEAT: ClassVar[bytes]
    """An encoded heartbeat frame."""

    LOGIN: ClassVar[type[LoginHandshake]]
    """The handshakes of clients that log in at the proxy."""

    PACKED_LEG: ClassVar[type[PackedLeg]] = PackedLeg
    """The form of a leg while a pump has the connection."""

    legs: Mapping[Peer, Leg[Any]]
    passage: Any
    metered: Any

    @abstractmethod
    def _new_pass_through(self, client: Client, before: Any = None) -> Any:
        """Create a passage without rules; `before` is the interceptor that it replaces."""

    @abstractmethod
    def _new_interceptor(self, rules: RuleSet) -> Any:
        """Create a passage with rules, which continues at the position of the present one."""

    @abstractmethod
    def _new_direction(self, source: Peer, received: bytes, *, is_open: bool) -> Direction:
        """Create the direction from `source`; `received` holds the bytes that the client sent behind its header."""

    @abstractmethod
    def _new_drain(self) -> Farewell:
        """Create the filter of frames for a draining session."""

    @abstractmethod
    def _on_method(self, *passed: Any) -> None:
        """Apply the effects of a passed method on the session itself."""

    @abstractmethod
    def _show_passed(self) -> None:
        """Show the tap the frames that the passage has kept for it."""

    @abstractmethod
    def _login(self) -> MirrorLogin | None:
        """Return the client's login, with which mirrors publish its copies; `None` if it is not known."""

    @abstractmethod
    def _lease(self, descriptors: tuple[int, int], returned: Callable[[], object]) -> AnyPumped | None:
        """Create the pump's view of the connection; `None` if that is impossible."""

    @abstractmethod
    def _may_drop_interceptor(self) -> bool:
        """Whether traffic would continue unchanged, now and later, without the interceptor."""

    @abstractmethod
    def has_open_channel(self, number: int) -> bool:
        """Whether this channel is open on both legs."""

    @abstractmethod
    def _close_of_channel(self, text: str) -> Close:
        """Return the close that an operator's request to close a channel sends to both peers."""

    @property
    @abstractmethod
    def first_known(self) -> Client | None:
        """The client data from which the rest can be derived again; `None` if more has to be kept."""

    @property
    @abstractmethod
    def channel_count(self) -> int:
        """Number of channels open on the client's leg."""

    @property
    @abstractmethod
    def client_requests(self) -> ClientRequests | None:
        """Observed requests of the client; `None` if it has sent none."""

    @property
    def channel_views(self) -> Mapping[int, ChannelView]:
        """Requests of the client by channel; channels without any may be left out."""
        requests = self.client_requests
        return {} if requests is None else requests.channels

    @property
    def requests(self) -> ClientRequests | None:
        """Requests of the client, if the dialect keeps them apart from `metered`."""
        return None

    @property
    def kept(self) -> object:
        """Dialect state that a parked session keeps besides its packed legs; see `go_on`."""
        return None

    def go_on(self, known: Client, metered: Any, requests: ClientRequests | None, kept: Any) -> None:
        """Restore the traffic of an open connection that was parked, after its legs have been rebuilt."""
        self.metered = metered

    @property
    def is_open(self) -> bool:
        """Whether the connection is past its handshake on both legs, and neither peer is closing it."""
        return all(leg.is_open for leg in self.legs.values())

    @property
    def is_readable(self) -> bool:
        """Whether rules can follow what passes."""
        return True

    def _handshake_facts(self) -> HandshakeSnapshot:
        """Return the facts of the client's handshake, redacted."""
        return HandshakeSnapshot()

    @abstractmethod
    def _open_state(self, offset_ns: int) -> OpenState:
        """Return the state of the client's channels, and the unanswered requests of the connection.

        `offset_ns` is added to times of `time.perf_counter`, in nanoseconds.
        """

    @property
    def _has_unsent_replies(self) -> bool:
        """Whether taps were shown replies to the client that are counted only once they are sent."""
        return False

    def end_observing(self) -> None:
        """Count the client's declarations as gone, at the end of the session."""

    def _begun(self, *, is_open: bool) -> None:
        """Finish the setup of the traffic, after both legs are connected and before the relays are created."""

    def _measure(self, is_server: bool, data: bytes | memoryview, now: float) -> None:
        """Count messages in a chunk that the client has sent or is sent, if the passage does not count them."""

    def forget_shown(self) -> None:
        """Discard cached redactions, since the rules that redact have changed."""

    def _upstream_ended(self) -> None:
        """Note that the upstream has closed its half of the connection."""

    def _note_leaving(self) -> None:
        """Note that the client is sent connection.close, after which only its answer matters."""

    def _may_send_between(self) -> bool:
        """Whether the upstream is between two frames of the client, so that a frame of the proxy may be sent."""
        return True

    def renew_secret(self, token: Secret) -> bool:
        """Send the broker the successor of the proxy's token; return whether that is possible now."""
        return False

    def answer_secrets(self, renew: Callable[[Secret], Awaitable[bool]]) -> None:
        """Check the further secrets of a client that has logged in at the proxy, if the protocol has such.

        `renew` returns whether the broker needs an accepted one, and raises `LoginDenied`.
        """

    # --- the end

    def _as_answered(self, sender: Peer, error: Any, direction: Direction | None) -> Any:
        """Return the error to report to `sender`, which caused `error`, as a 0-9-1 one."""
        return error

    def _is_abnormal_end(self) -> bool:
        """Whether a peer that closes its connection now should have sent connection.close before."""
        return True
