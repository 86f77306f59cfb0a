# ruff: noqa: B027 - a dialect may do without most of the hooks
"""What a dialect makes for the traffic of a session, and answers about it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.peer import Peer
from amqproxy.proxy.leg import Leg
from amqproxy.proxy.mirroring.mirror_publisher import MirrorLogin
from amqproxy.proxy.session.farewell import Farewell
from amqproxy.proxy.session.relay import Direction
from amqproxy.pump.pumps import AnyPumped
from amqproxy.rules.context import Client
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.verdict import Close
from amqproxy.taps.topology.client_requests import ChannelView, ClientRequests


class DialectParts(ABC):
    """The parts of a `Traffic` that each protocol has of its own."""

    PROTOCOL: ClassVar[str]
    """The protocol's name, as records and the control socket have it."""

    ERROR: ClassVar[type[Exception]] = ProtocolError
    """What a peer has done wrong, in this protocol."""

    HEARTBEAT: ClassVar[bytes]
    """The frame of a heartbeat."""

    legs: Mapping[Peer, Leg[Any]]
    passage: Any
    metered: Any

    @abstractmethod
    def _new_pass_through(self, client: Client, before: Any = None) -> Any:
        """Make a passage without rules; `before` is the interceptor that it replaces."""

    @abstractmethod
    def _new_interceptor(self, rules: RuleSet) -> Any:
        """Make a passage with rules, which goes on where the present one is."""

    @abstractmethod
    def _new_direction(self, source: Peer, received: bytes, *, is_open: bool) -> Direction:
        """Make the direction of what `source` sends; `received` is what the client has sent with its header."""

    @abstractmethod
    def _new_drain(self) -> Farewell:
        """Make what decides which frames pass while the session drains."""

    @abstractmethod
    def _on_method(self, *passed: Any) -> None:
        """Do what follows for the session itself from a method that has passed."""

    @abstractmethod
    def _show_passed(self) -> None:
        """Show the tap what the passage has kept for it."""

    @abstractmethod
    def _login(self) -> MirrorLogin | None:
        """The client's login, with which mirrors publish its copies; None where it is not known."""

    @abstractmethod
    def _lease(self, descriptors: tuple[int, int], returned: Callable[[], object]) -> AnyPumped | None:
        """Make what a pump takes of the connection; None where that is not possible."""

    @abstractmethod
    def _may_drop_interceptor(self) -> bool:
        """Whether all would go on as it does if there were no interceptor, now and later."""

    @abstractmethod
    def has_open_channel(self, number: int) -> bool:
        """Whether this channel is open for both peers."""

    @abstractmethod
    def _close_of_channel(self, text: str) -> Close:
        """What an operator's close of a channel is to both peers."""

    @property
    @abstractmethod
    def first_known(self) -> Client | None:
        """What is known of the client from which the rest can be known again; None where more has to be kept."""

    @property
    @abstractmethod
    def channel_count(self) -> int:
        """Number of channels open on the client's leg."""

    @property
    @abstractmethod
    def channel_views(self) -> Mapping[int, ChannelView]:
        """What the client has asked for on its channels; those on which it has asked for nothing may be left out."""

    @property
    def requests(self) -> ClientRequests | None:
        """What the client has asked for, where that is kept apart from what is `metered`."""
        return None

    @property
    def kept(self) -> object:
        """What a parked session keeps as it is, besides its packed legs; see `go_on`."""
        return None

    def go_on(self, known: Client, metered: Any, requests: ClientRequests | None, kept: Any) -> None:
        """Be as the traffic of an open connection that was parked, whose legs have been made again."""
        self.metered = metered

    @property
    def is_open(self) -> bool:
        """Whether the connection is past its handshake on both legs, and neither peer is closing it."""
        return all(leg.is_open for leg in self.legs.values())

    @property
    def is_readable(self) -> bool:
        """Whether rules can follow what passes."""
        return True

    def end_observing(self) -> None:
        """The session is over: count what the client has declared as gone."""

    def _begun(self, *, is_open: bool) -> None:
        """Both legs are connected, and there are relays."""

    def _measure(self, is_server: bool, data: bytes | memoryview, now: float) -> None:
        """Count messages in what the client has sent or is sent, where the passage does not."""

    def forget_shown(self) -> None:
        """What may be shown of the client is another from here on."""

    def _upstream_ended(self) -> None:
        """Nothing more comes from the upstream."""

    def _note_leaving(self) -> None:
        """The client is sent connection.close: nothing but its answer counts any more."""

    def _may_send_between(self) -> bool:
        """Whether a frame of ours would come between two of the client's, as the upstream sees them."""
        return True

    # --- the end

    def _as_answered(self, sender: Peer, error: ProtocolError, direction: Direction | None) -> ProtocolError:
        """The error as its sender is told it."""
        return error

    def _is_abnormal_end(self) -> bool:
        """Whether a peer that closes its connection now should have sent connection.close before."""
        return True
