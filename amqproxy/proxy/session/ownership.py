"""Ownership of the two sockets of a session: its relays, or a pump, receive and send.

Both relays receive through `Ownership.receive`. In the session's steady state, the connection is handed to a pump from
there; code that needs it back calls `recall` and continues as if there were no pump. Mostly the session is parked then:
the relays end, and when the connection comes back, new ones start, with another `Ownership`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple, Protocol

import trio

from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.process.supervision import contained
from amqproxy.pump.pumped_connection import PumpedConnection
from amqproxy.pump.pumps import IDLE_AFTER, AnyPump, AnyPumped, Pumps
from amqproxy.pump.return_reasons import ENDED, GONE
from amqproxy.sockets.transport import Interrupted, SocketTransport, Transport, TransportBroken

_PLACES = (CLIENT, SERVER)


class TargetBroken(Exception):
    """The target of a direction is gone, so that bytes which a pump left unsent cannot be sent."""


class OwnedLeg(Protocol):
    """A leg of either protocol, as far as `Ownership` uses it."""

    transport: Transport


class Owner(StrEnum):
    """Owners of a session's sockets."""

    RELAYS = "relays"
    """The session's two relays, one for each direction."""
    OFFERED = "offered"
    """Nobody for the moment: one relay waits until the other has released its socket."""
    PUMP = "pump"
    """A pump, for both directions."""


class OwnershipEvent(StrEnum):
    """Events that change the owner."""

    OFFER = "offer"
    WITHDRAW = "withdraw"
    HAND_OVER = "hand over"
    GIVE_BACK = "give back"


OWNERSHIP_TRANSITIONS: dict[Owner, dict[OwnershipEvent, Owner]] = {
    Owner.RELAYS: {OwnershipEvent.OFFER: Owner.OFFERED},
    Owner.OFFERED: {OwnershipEvent.WITHDRAW: Owner.RELAYS, OwnershipEvent.HAND_OVER: Owner.PUMP},
    Owner.PUMP: {OwnershipEvent.GIVE_BACK: Owner.RELAYS},
}
"""The next owner for each owner and event."""


class Handover(NamedTuple):
    """A connection taken over by a pump; `patience` is that of its `Ownership`."""

    pumped: AnyPumped
    pump: AnyPump
    patience: int


class Ownership:
    """The owner of one session's connection, which changes in `_move` alone.

    `legs` holds both legs by the time of the first `receive`. `is_steady` tells whether a pump could take the
    connection, as far as the session knows. `lease` creates the pump's view of the connection from both descriptors and
    a callback for its return, or returns `None` if that is impossible. `park` is called once a pump has the connection:
    if it returns true, the session is parked, and this object has no connection any more.
    The connection is handed over after `patience` chunks, or sooner once it is idle.
    """

    __slots__ = (
        "_changed",
        "_chunks",
        "_failure",
        "_is_parked",
        "_is_steady",
        "_is_watched",
        "_lease",
        "_legs",
        "_park",
        "_patience",
        "_pump",
        "_pumped",
        "_pumps",
        "_seen",
        "_unflushed",
        "_waiting",
        "owner",
    )

    def __init__(
        self,
        pumps: Pumps,
        legs: Mapping[Peer, OwnedLeg],
        is_steady: Callable[[], bool],
        lease: Callable[[tuple[int, int], Callable[[], object]], AnyPumped | None],
        park: Callable[[Handover], bool] = lambda handover: False,
    ) -> None:
        self._pumps = pumps
        self._park = park
        self._is_parked = False
        self._is_watched = False
        self._unflushed: set[Peer] | None = None
        self._seen = -1
        self._legs = legs
        self._is_steady = is_steady
        self._lease = lease
        self._chunks: float = pumps.first_chunks
        self._patience = pumps.first_chunks
        self._waiting: set[Peer] = set()
        self._changed = trio.Event()
        self._pumped: AnyPumped | None = None
        self._pump: AnyPump | None = None
        self._failure: Exception | None = None
        self.owner = Owner.RELAYS

    def _move(self, event: OwnershipEvent) -> None:
        self.owner = OWNERSHIP_TRANSITIONS[self.owner][event]
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    # --- interface of the relays

    async def receive(self, peer: Peer) -> bytes | None:
        """Return the next chunk that a relay receives from its leg; a pump may have relayed earlier ones. `None`: the
        session is parked, and the relay is to end.

        Raises `TransportBroken` when the leg's peer is gone, `TargetBroken` when the other leg's is.
        """
        was_away = False
        while True:
            if self._failure is not None:
                raise self._failure
            if self._unflushed is not None and peer in self._unflushed:
                self._unflushed.discard(peer)
                await self._send_unsent(peer.other)
            if self._is_parked:
                return None
            if self.owner is Owner.PUMP:
                try:
                    await self._changed.wait()
                finally:  # the session must have its sockets back, however it ends
                    self.recall()
            elif self.owner is Owner.OFFERED:  # by the other relay, which waits
                was_away = True
                self._answer_offer()
            elif was_away:
                was_away = False
                await self._send_unsent(peer.other)
            elif self._may_offer(peer):
                self._move(OwnershipEvent.OFFER)
                self._interrupt(peer.other)
                was_away = True  # a pump may take the connection and return it before this task runs again
                await self._changed.wait()
            else:
                if not self._is_watched:
                    self._is_watched = True
                    self._pumps.watch(self.offer_if_idle, self._rest)
                data = await self._receive_here(peer)
                if data is not None:
                    self._chunks -= 1
                    return data

    async def _receive_here(self, peer: Peer) -> bytes | None:
        """Return the next chunk from a peer; `None` if the other relay offers the connection first."""
        is_interrupted = False
        self._waiting.add(peer)
        try:
            return await self._legs[peer].transport.receive()
        except Interrupted:
            is_interrupted = True
            return None
        finally:
            self._waiting.discard(peer)
            if self.owner is Owner.OFFERED and not is_interrupted:
                self._move(OwnershipEvent.WITHDRAW)

    def _interrupt(self, peer: Peer) -> None:
        transport = self._legs[peer].transport
        assert isinstance(transport, SocketTransport)
        transport.interrupt()

    async def _send_unsent(self, to: Peer) -> None:
        try:
            await self._legs[to].transport.send(b"")
        except TransportBroken as error:
            raise TargetBroken(str(error)) from None

    # --- handing over and taking back

    def _may_offer(self, peer: Peer) -> bool:
        """Whether enough chunks have passed and the other relay is waiting for its peer."""
        return (
            self._chunks <= 0
            and peer.other in self._waiting
            and self._legs[peer.other].transport.is_listening
            and self._may_go()
        )

    def _may_go(self) -> bool:
        """Whether a pump has room for the connection and both sockets could be handed over."""
        return (
            self._pumps.takes_more
            and self._is_steady()
            and all(
                type(leg.transport) is SocketTransport
                and not leg.transport.is_sending
                and (leg.transport.tls is None or self._pumps.take_tls)
                for leg in self._legs.values()
            )
        )

    @property
    def _rest(self) -> float:
        """Idle seconds before the connection is handed over; longer if pumps have soon returned it before."""
        return IDLE_AFTER * self._patience / max(1, self._pumps.first_chunks)

    def offer_if_idle(self) -> float | None:
        """Hand the connection over if no byte has come since the last call; return the seconds until the next call, or
        `None` if no call is needed before more bytes come.
        """
        again: float | None = None
        with contained("connection not handed over"):
            again = self._offer_if_idle()
        return again  # noqa: RET504 - the failure that ruff does not see leads here, too

    def _offer_if_idle(self) -> float | None:
        seen, self._seen = self._seen, sum(leg.transport.received for leg in self._legs.values())
        if self.owner is Owner.RELAYS and self._chunks != math.inf and self._waiting and self._may_go():
            if seen != self._seen or len(self._waiting) < len(_PLACES):
                return self._rest
            self._chunks = 0
            self._interrupt(CLIENT)
        self._is_watched = False
        return None

    def _answer_offer(self) -> None:
        """Hand the connection to a pump if still possible, while neither relay receives; else withdraw the offer."""
        pumped = self._pumpable() if self._may_go() else None
        pump = None if pumped is None else self._pumps.take(pumped)
        if pumped is None or pump is None:
            self._chunks = self._patience
            self._move(OwnershipEvent.WITHDRAW)
        else:
            self._pumped, self._pump = pumped, pump
            self._move(OwnershipEvent.HAND_OVER)
            if self._park(Handover(pumped, pump, self._patience)):
                self._pumped = self._pump = None
                self._is_parked = True

    def _pumpable(self) -> AnyPumped | None:
        """Lend both sockets and return the connection as a pump takes it; `None` if that is impossible."""
        client, server = (self._legs[peer].transport for peer in _PLACES)
        if type(client) is not SocketTransport or type(server) is not SocketTransport:
            return None
        ours, theirs = client.lend(), server.lend()
        if ours is None or theirs is None:
            return None
        pumped = self._lease((ours, theirs), self._take_back)
        if isinstance(pumped, PumpedConnection):
            for place, transport in enumerate((client, server)):
                if transport.tls is not None:
                    pumped.use_tls(place, transport.tls)
        return pumped

    def _take_back(self) -> None:
        """Take over the state of a connection that the pump has returned, and wake the relays."""
        pumped, self._pumped, self._pump = self._pumped, None, None
        assert pumped is not None
        try:
            self._accept(pumped)
        except Exception as failure:  # noqa: BLE001 - fails this session's relays, not the other returning connections
            self._failure = failure
        self._move(OwnershipEvent.GIVE_BACK)

    def go_on(self, handover: Handover) -> None:
        """Take over a returned connection, as the new ownership of a session that was parked."""
        self._patience = handover.patience
        self._unflushed = set(_PLACES)
        self._accept(handover.pumped)

    def _accept(self, pumped: AnyPumped) -> None:
        self._pumps.note_return(pumped)
        self._count_received(pumped)
        for place, peer in enumerate(_PLACES):
            transport = self._legs[peer].transport
            assert isinstance(transport, SocketTransport)
            is_held_up = bool(pumped.unsent(place))
            transport.take_back(
                pumped.rest(place), pumped.unsent(1 - place), pumped.error(place), is_held_up=is_held_up
            )
        if pumped.reason in (ENDED, GONE):
            self._chunks = math.inf
        else:
            self._patience = (
                self._pumps.first_chunks
                if self._pumps.was_worth_while(pumped)
                else min(2 * self._patience, self._pumps.most_chunks)
            )
            self._chunks = self._patience

    def _count_received(self, pumped: AnyPumped) -> None:
        for peer, size in zip(_PLACES, pumped.show(), strict=True):
            transport = self._legs[peer].transport
            assert isinstance(transport, SocketTransport)
            transport.received += size

    def let_go(self) -> None:
        """Release all references to a session that was parked or whose rebuilt parts were only inspected."""
        self._legs = {}
        self._is_steady = _never
        self._lease = _nothing
        self._park = _never

    # --- for changes to a session from outside

    def recall(self) -> None:
        """Return the connection to the relays at once."""
        if self._pump is not None and self._pumped is not None:
            self._pump.recall(self._pumped)

    def refresh(self) -> None:
        """Update legs and meter with what the pump has relayed so far."""
        if self._pumped is not None:
            self._pumps.read_journals()
            self._count_received(self._pumped)


def _never(*_: object) -> bool:
    return False


def _nothing(*_: object) -> None:
    """Return `None`, as long as the session has no pumped connection."""
