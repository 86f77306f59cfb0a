"""The direction, the drain and the traffic of the toy protocol."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import Any

import trio

from amqproxy.amqp091.errors import PreconditionFailed, ProtocolError, Scope
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.session.farewell import Farewell
from amqproxy.proxy.session.session_parts import SessionParts
from amqproxy.proxy.session.session_services import SessionServices
from amqproxy.proxy.session.traffic import Traffic
from amqproxy.rules.context import Client
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.verdict import Close
from tests.proxy.toy.passages import ToyInterceptor, ToyLegs, ToyPassThrough
from tests.proxy.toy.protocol import NAME, ToyFrame, ToyLeg, line


class ToyWay:
    """The `Direction` of what one peer sends."""

    pacing = drain = None
    has_more = False
    is_steady = True

    def __init__(self, source: ToyLeg, passage: Any, note: Callable[[bool, Any, float], None]) -> None:
        self._source = source
        self._note = note
        self.passage = passage
        self.error: ProtocolError | None = None

    @property
    def held_size(self) -> int:
        return len(self._source.reader.held)

    @property
    def rest(self) -> bytes:
        return self._source.reader.held

    def take(self, data: bytes) -> None:
        self.passage.take(self._source.peer, self._source.reader.feed(data), trio.current_time())
        self.error = self._source.reader.error

    def finish(self, output: bytes, began: float) -> bytes:
        self._note(self._source.peer is SERVER, output, began)
        return output

    def take_unfed(self) -> bytes:
        return b""

    def recover(self, failure: Exception) -> None:
        return None

    def resume_after_pump(self) -> None: ...


class ToyDrain(Farewell):
    """Bodies that have begun go on to their end."""

    def __init__(self, legs: Mapping[Peer, ToyLeg]) -> None:
        super().__init__(legs[CLIENT])
        self._legs = legs

    @property
    def is_complete(self) -> bool:
        return not any(leg.reader.bodies for leg in self._legs.values())

    def passes(self, sender: Peer, frame: ToyFrame) -> bool:
        return not self.is_leaving and (sender is CLIENT or frame.channel == 0 or frame.is_in_body)


class ToyTraffic(Traffic):
    PROTOCOL = NAME
    HEARTBEAT = line(0, "TICK").raw

    legs: Mapping[Peer, ToyLeg]

    def __init__(self, parts: SessionParts, services: SessionServices) -> None:
        super().__init__(parts, services)
        self.legs = {peer: ToyLeg(peer, transport, self._report) for peer, transport in parts.transports.items()}
        self.metered = None
        connections = {peer: leg.connection for peer, leg in self.legs.items()}
        self._between = ToyLegs(connections, self._met, is_tapped=self._is_tapped)
        self.passage = self._new_pass_through(parts.known)

    def _new_pass_through(self, client: Client, before: Any = None) -> ToyPassThrough:
        return ToyPassThrough(self._between, client)

    def _new_interceptor(self, rules: RuleSet) -> ToyInterceptor:
        client = self.passage.client
        clocks = {"random": random.random, "time": time.time, "body_limit": self._limits.rule_body}
        return ToyInterceptor(self._between, rules.evaluator(client), client, self._share, **clocks)

    def _new_direction(self, source: Peer, received: bytes, *, is_open: bool) -> ToyWay:
        return ToyWay(self.legs[source], self.passage, self._note)

    def _open_state(self, offset_ns: int) -> Any:
        return (), ()

    def _new_drain(self) -> ToyDrain:
        return ToyDrain(self.legs)

    def _on_method(self, sender: Peer, frame: ToyFrame) -> None:
        if frame.verb == "WELCOME":
            self._scope.deadline = float("inf")
            self._report.note_open("", 0)
        elif frame.verb == "BYE":
            self._report.note_close(sender, int(frame.words[0]), " ".join(frame.words[1:]))

    def _show_passed(self) -> None:
        for peer in Peer:
            for note, frames in self.passage.take_passed(peer):
                self._report.note_frames(peer, frames, note)

    def _login(self) -> None:
        return None

    def _lease(self, descriptors: tuple[int, int], returned: Callable[[], object]) -> None:
        return None

    def _may_drop_interceptor(self) -> bool:
        return False

    def has_open_channel(self, number: int) -> bool:
        return all(number in leg.connection.channels for leg in self.legs.values())

    def _close_of_channel(self, text: str) -> Close:
        return Close(Scope.CHANNEL, PreconditionFailed.code, text)

    first_known = None
    client_requests = None

    @property
    def channel_count(self) -> int:
        return len(self.legs[CLIENT].connection.channels)
