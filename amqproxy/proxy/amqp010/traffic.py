"""The `Traffic` of a 0-10 session."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from amqproxy.amqp010.command_numbering import CommandNumbering
from amqproxy.amqp010.controls import (
    ConnectionClose,
    ConnectionHeartbeat,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStartOk,
    ConnectionTune,
    SessionAttached,
)
from amqproxy.amqp010.domains import CloseCode, Track
from amqproxy.amqp010.errors import FramingError, ProtocolError
from amqproxy.amqp010.errors import Scope as Scope010
from amqproxy.amqp010.frame import encode_method
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.protocol_header import HEADER, NAME
from amqproxy.amqp010.transitions import SessionState as SessionPhase
from amqproxy.amqp091.errors import PreconditionFailed, Scope
from amqproxy.amqp091.methods import ConnectionStartOk as ConnectionStartOk091
from amqproxy.amqp091.protocol_header import foreign_answer
from amqproxy.conversion.amqp010.error_codes import connection_code
from amqproxy.conversion.amqp010.method_views import DEFAULT_VHOST, method_view
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp010.direction import Amqp010Direction
from amqproxy.proxy.amqp010.drain import Amqp010Drain
from amqproxy.proxy.amqp010.interception.interceptor import Amqp010Interceptor
from amqproxy.proxy.amqp010.leg import Amqp010Leg
from amqproxy.proxy.amqp010.login_handshake import Amqp010LoginHandshake
from amqproxy.proxy.amqp010.packed_leg import Amqp010PackedLeg
from amqproxy.proxy.amqp010.pass_through import Amqp010PassThrough
from amqproxy.proxy.amqp010.session_meter import Amqp010SessionMeter
from amqproxy.proxy.interception.effects import ConnectionRefusal
from amqproxy.proxy.mirroring.mirror_publisher import MirrorLogin
from amqproxy.proxy.session.dialect_parts import OpenState
from amqproxy.proxy.session.session_parts import SessionParts
from amqproxy.proxy.session.session_services import SessionServices
from amqproxy.proxy.session.traffic import Traffic
from amqproxy.pump.amqp010.idle_connection import Amqp010IdleConnection
from amqproxy.pump.amqp010.pumped_connection import Amqp010PumpedConnection
from amqproxy.pump.pumps import AnyPumped
from amqproxy.rules.amqp010.client_info import updated_amqp010_client
from amqproxy.rules.context import Client
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.verdict import Close
from amqproxy.taps.amqp010.session_ends import SessionEnds
from amqproxy.taps.metering.amqp010.channel_snapshots import Amqp010ChannelSnapshots, SessionOnChannel
from amqproxy.taps.record import json_mapping
from amqproxy.taps.topology.client_requests import ClientRequests
from amqproxy.taps.trace.snapshot import HandshakeSnapshot, known_text

_CONTROLS_OF_CONNECTION = (0, int(Track.CONTROL))

Numberings = tuple[CommandNumbering, CommandNumbering]
"""Ids of the client's commands, and of the server's."""


class Amqp010Traffic(Traffic):
    """Executor of what the passage between the legs of a 0-10 session requests.

    The handshake deadline of the session's `scope` is lifted once the connection is open, or cannot be read.
    """

    PROTOCOL = NAME
    LOGIN = Amqp010LoginHandshake
    PACKED_LEG = Amqp010PackedLeg
    ERROR = ProtocolError
    HEARTBEAT = encode_method(0, ConnectionHeartbeat())

    legs: Mapping[Peer, Amqp010Leg]
    passage: Amqp010PassThrough | Amqp010Interceptor
    interceptor: Amqp010Interceptor | None
    metered: Amqp010SessionMeter

    def __init__(self, parts: SessionParts[Any], services: SessionServices) -> None:
        super().__init__(parts, services)
        report = parts.report
        tallies = report.metrics.tallies[NAME]
        self.legs = {
            peer: Amqp010Leg(peer, transport, tallies, report, services.turns)
            for peer, transport in parts.transports.items()
        }
        self.metered = Amqp010SessionMeter(report.metrics, report.number, report.name, services.topology)
        self._ends = SessionEnds()
        self._is_login = True
        self._may_drop = False
        self.passage = self._new_pass_through(parts.known)
        self._show_observer(self.passage)

    # --- passages and directions

    def _new_pass_through(
        self, client: Client, before: Any = None, numberings: Mapping[Peer, CommandNumbering] | None = None
    ) -> Amqp010PassThrough:
        return Amqp010PassThrough(
            self.legs,
            client,
            self._met,
            self.metered.saw,
            self._note_deviation,
            is_tapped=self._is_tapped,
            numberings=numberings if before is None else before.numberings,
        )

    def _new_interceptor(self, rules: RuleSet) -> Amqp010Interceptor:
        before, met = self.passage, self._met
        interceptor = Amqp010Interceptor(
            {peer: leg.connection for peer, leg in self.legs.items()},
            rules.evaluator(before.client),
            before.client,
            random=random.random,
            time=time.time,
            met=lambda sender, channel, method: met.append((sender, channel, method)),
            saw=self.metered.saw,
            is_tapped=self._is_tapped,
            share=self._share,
            body_limit=self._limits.rule_body,
            numberings=before.numberings,
        )
        interceptor.join({peer: leg.reader.open_tracks for peer, leg in self.legs.items()}, self.metered.attachment)
        return interceptor

    def _new_direction(self, source: Peer, received: bytes, *, is_open: bool) -> Amqp010Direction:
        return Amqp010Direction(
            self.legs[source],
            self.legs[source.other],
            self.passage,
            self._drop_interceptor,
            self._note,
            self._greet,
            self._note_violation,
            self._note_fault,
            is_open=is_open or source is CLIENT,
        )

    def _begun(self, *, is_open: bool) -> None:
        if not is_open:
            self._greet(CLIENT, HEADER)

    def _new_drain(self) -> Amqp010Drain:
        return Amqp010Drain(self.legs[CLIENT], {peer: leg.reader for peer, leg in self.legs.items()})

    def _replace_passage(self, passage: Any) -> None:
        super()._replace_passage(passage)
        self._show_observer(passage)

    def _show_observer(self, passage: Any) -> None:
        """Give the client observer this passage, from which it knows the client."""
        if self.metered.observer is not None:
            self.metered.observer.passage = passage

    # --- rules

    @property
    def is_readable(self) -> bool:
        """Whether rules can follow the traffic, which ends once a disallowed frame has passed."""
        return self.passage.is_followed and all(leg.is_framed for leg in self.legs.values())

    def apply_rules(self, rules: RuleSet, kept: set[str]) -> None:
        super().apply_rules(rules, kept)
        self._look_at_need()
        self._drop_interceptor()

    def _interceptor_for_operator(self) -> Any:
        interceptor = super()._interceptor_for_operator()
        self._look_at_need()
        return interceptor

    def _look_at_need(self) -> None:
        """Update whether any rule can match the client, and thus whether the interceptor may be dropped."""
        self._may_drop = self.interceptor is not None and not self.interceptor.evaluator.may_act

    def _may_drop_interceptor(self) -> bool:
        if not self._may_drop or not self.is_open:
            return False
        is_transparent = self.interceptor is not None and self.interceptor.is_transparent
        return is_transparent and not any(leg.reader.is_paused for leg in self.legs.values())

    # --- effects of passed frames

    def _greet(self, sender: Peer, header: bytes) -> bool:
        """Take a peer's protocol header; return whether frames follow."""
        is_ours = header == HEADER
        if sender is SERVER:
            self._report.note_protocol_header(header, SERVER)
            if not is_ours:
                error = FramingError(foreign_answer(header, NAME), offset=0)
                self._report.note_passed_violation(SERVER, error, "passes unread from here on")
        if not is_ours:
            self._lift_deadline()
        elif len(header) == len(HEADER):
            for leg in self.legs.values():
                leg.connection.receive_header(sender, header)
        return is_ours

    def _show_passed(self) -> None:
        for peer in (CLIENT, SERVER):
            for note, chunk in self.passage.take_passed(peer):
                self._report.note_frames(peer, chunk, note)

    def _on_method(self, sender: Peer, channel: int, method: Method) -> None:
        match method:
            case ConnectionStartOk():
                self._report.introduce(self.passage.shown_client)
            case ConnectionTune():
                self._is_login = False
            case ConnectionOpenOk():
                self._lift_deadline()
                self.settle_upstream()
                connection = self.legs[CLIENT].connection
                self._report.note_open(connection.virtual_host or DEFAULT_VHOST, connection.heartbeat)
                self._impair_from_start()
                self._look_at_need()
            case ConnectionClose():
                self.resume()  # whichever peer closes, the client must be read for its answer
                code = method.reply_code or 0
                if sender is SERVER and self._is_login and code == CloseCode.CONNECTION_FORCED:
                    self._report.metrics.logins_refused.inc()
                if self._closing.reset_if_silent(sender, code):
                    self._scope.cancel()
                self._report.note_close(sender, code, method.reply_text or "")
            case SessionAttached():
                self._report.metrics.channels_opened.inc()
            case _:
                ended = self._ends.code(sender, channel, method)
                if ended is not None:
                    self._report.note_channel_close(sender, ended)

    def _lift_deadline(self) -> None:
        self._scope.deadline = math.inf

    def _note_violation(self, sender: Peer, error: ProtocolError) -> None:
        """Report unreadable bytes of a peer, which are relayed unread."""
        self._lift_deadline()
        self.metered.close()
        self._report.note_passed_violation(sender, error, "passes unread from here on")

    def _note_deviation(self, sender: Peer, error: ProtocolError) -> None:
        """Report a disallowed control of class connection, which is forwarded nevertheless."""
        self._lift_deadline()
        self._report.note_passed_violation(sender, error, "passes all the same")

    def _note_fault(self, sender: Peer, failure: Exception) -> None:
        """Report an internal error, after which this peer's bytes are relayed unread."""
        self._lift_deadline()
        self.metered.close()
        with self._report.contained(f"what the {sender} sends is not read any further"):
            raise failure

    def _login(self) -> MirrorLogin | None:
        upstream = self.legs[SERVER].connection
        start = None if upstream.client is None else method_view(CLIENT, upstream.client)
        if not isinstance(start, ConnectionStartOk091):
            return None
        return MirrorLogin(start, upstream.virtual_host or DEFAULT_VHOST, self.passage.client.upstream)

    def _may_send_between(self) -> bool:
        return _CONTROLS_OF_CONNECTION not in self.legs[CLIENT].reader.open_tracks

    # --- for the control socket

    def _handshake_facts(self) -> HandshakeSnapshot:
        connection, shown = self.legs[CLIENT].connection, self.passage.shown_client
        return HandshakeSnapshot(
            user=known_text(shown.user) or None,
            mechanism=None if connection.client is None else known_text(connection.client.mechanism),
            virtual_host=known_text(shown.vhost),
            client_properties=json_mapping(shown.properties),
            channel_max=connection.channel_max,
            frame_max=connection.frame_max,
            heartbeat=connection.heartbeat,
        )

    def _open_state(self, offset_ns: int) -> OpenState:
        cover = None if self.interceptor is None else self.interceptor.covered_method
        found = Amqp010ChannelSnapshots(
            self._attached(), self.passage.unshown_from, cover, self.metered.meter, self.channel_views, offset_ns
        )
        return found, ()

    def _attached(self) -> Iterator[SessionOnChannel]:
        for number, channel in list(self.legs[CLIENT].connection.channels.items()):
            if channel.session is not None:
                yield SessionOnChannel(number, channel.session.name, channel.session.state)

    @property
    def sessions(self) -> dict[int, bytes]:
        """Names of the sessions that the client is attached to, by channel number."""
        channels = self.legs[CLIENT].connection.channels
        return {number: each.session.name for number, each in channels.items() if each.session is not None}

    def has_open_channel(self, number: int) -> bool:
        """Whether both peers are attached to a session on this channel, as far as can be read."""
        if not self.is_readable:
            return False  # no frame of the proxy could be sent in between
        channels = [leg.connection.channels.get(number) for leg in self.legs.values()]
        return all(
            channel is not None and channel.session is not None and channel.session.state is SessionPhase.ATTACHED
            for channel in channels
        )

    @property
    def channel_count(self) -> int:
        return self.legs[CLIENT].connection.session_count

    @property
    def client_requests(self) -> ClientRequests | None:
        return None if self.metered.observer is None else self.metered.observer.requests

    # --- the end

    def _close_of_channel(self, text: str) -> Close:
        return Close(Scope.CHANNEL, PreconditionFailed.code, text)

    def _is_abnormal_end(self) -> bool:
        return self.is_open

    def _as_answered(self, sender: Peer, error: ProtocolError, direction: Any) -> ConnectionRefusal:
        code = connection_code(int(error.code)) if error.scope is Scope010.CONNECTION else CloseCode.FRAMING_ERROR
        return ConnectionRefusal(Close(Scope.CONNECTION, int(code), error.reply_text))

    def let_go(self) -> None:
        super().let_go()
        self._show_observer(None)
        self.passage.end()

    # --- ownership by a pump

    @property
    def first_known(self) -> Client | None:
        """The client data from which the rest can be derived again with its first controls; `None` if more has to be
        kept: while there is an interceptor or a session is ending, or if the client identified itself only later."""
        passage = self.passage
        if not isinstance(passage, Amqp010PassThrough) or self._ends.are_awaited:
            return None
        return passage.client if self._known_again(passage.client).user == passage.client.user else None

    def _known_again(self, known: Client) -> Client:
        """Return the client, updated from its first controls."""
        connection = self.legs[CLIENT].connection
        assert connection.client is not None
        known = updated_amqp010_client(known, connection.client)
        return updated_amqp010_client(known, ConnectionOpen(connection.virtual_host))

    @property
    def kept(self) -> Numberings:
        """Ids of the client's commands, and of the server's."""
        return self.passage.numberings[CLIENT], self.passage.numberings[SERVER]

    def go_on(self, known: Client, metered: Any, requests: ClientRequests | None, kept: Any) -> None:
        self._show_observer(None)  # the previous observer and passage would keep each other alive
        super().go_on(known, metered, requests, kept)
        self._is_login = False
        by_sender = dict(zip((CLIENT, SERVER), kept, strict=True))
        self.passage = self._new_pass_through(self._known_again(known), numberings=by_sender)
        self._show_observer(self.passage)

    def _lease(self, descriptors: tuple[int, int], returned: Callable[[], object]) -> AnyPumped | None:
        passage, pumps = self.passage, self._services.pumps
        assert pumps is not None
        readers = self.legs[CLIENT].reader, self.legs[SERVER].reader
        if not isinstance(passage, Amqp010PassThrough):
            return None
        if any(each.is_paused or each.error is not None or each.held_size > pumps.most_held for each in readers):
            return None
        if pumps.is_idle_only and any(each.is_mid_assembly for each in readers):
            return None
        note = None if self.metered.is_lost else self.metered.feed
        if pumps.is_idle_only:
            return Amqp010IdleConnection(readers, descriptors, returned, note)
        return Amqp010PumpedConnection(readers, self.kept, self.sessions, descriptors, returned, note)
