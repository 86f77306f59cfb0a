"""The `Traffic` of a 0-9-1 session."""

from __future__ import annotations

import math
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from copy import copy
from typing import Any

import trio

from amqproxy.amqp091.errors import NotAllowed, PreconditionFailed, ProtocolError, Scope
from amqproxy.amqp091.frame import HEARTBEAT_FRAME, METHOD, Frame
from amqproxy.amqp091.methods import (
    ConnectionClose,
    ConnectionOpenOk,
    ConnectionStartOk,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    Method,
)
from amqproxy.amqp091.protocol_header import HEADER, NAME, foreign_answer
from amqproxy.amqp091.rabbitmq_errors import reworded, reworded_reading
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp091.client_observer import ClientObserver
from amqproxy.proxy.amqp091.direction import Amqp091Direction
from amqproxy.proxy.amqp091.drain import Drain
from amqproxy.proxy.amqp091.handshake import PacedHandshake
from amqproxy.proxy.amqp091.interception.interceptor import Amqp091Interceptor
from amqproxy.proxy.amqp091.leg import Amqp091Leg, new_leg
from amqproxy.proxy.amqp091.login_handshake import Amqp091LoginHandshake
from amqproxy.proxy.amqp091.packed_leg import Amqp091PackedLeg
from amqproxy.proxy.amqp091.pass_through import PassThrough
from amqproxy.proxy.logins.attempt import LoginDenied
from amqproxy.proxy.mirroring.mirror_publisher import MirrorLogin
from amqproxy.proxy.session.dialect_parts import OpenState
from amqproxy.proxy.session.relay import Direction
from amqproxy.proxy.session.session_effects import impair
from amqproxy.proxy.session.session_meter import SessionMeter
from amqproxy.proxy.session.session_parts import SessionParts
from amqproxy.proxy.session.session_services import SessionServices
from amqproxy.proxy.session.session_state import SessionState
from amqproxy.proxy.session.traffic import Traffic
from amqproxy.pump.amqp091.idle_connection import Amqp091IdleConnection
from amqproxy.pump.amqp091.pumped_connection import Amqp091PumpedConnection
from amqproxy.pump.pumps import AnyPumped
from amqproxy.rules.context import Client
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.rewriting.login import rewritten
from amqproxy.rules.rewriting.secret import Secret
from amqproxy.rules.verdict import Close
from amqproxy.sockets.transport import TransportBroken
from amqproxy.taps.metering.amqp091.channel_snapshots import Amqp091ChannelSnapshots
from amqproxy.taps.metering.amqp091.message_meter import MessageMeter
from amqproxy.taps.record import json_mapping, json_value
from amqproxy.taps.topology.client_requests import ClientRequests
from amqproxy.taps.trace.snapshot import HandshakeSnapshot, known_text

MOST_SECRETS = 2
"""Maximum number of secrets of a client that are checked or wait for that; a further one ends its connection."""


class Amqp091Traffic(Traffic):
    """Executor of what the passage between the legs of a 0-9-1 session requests."""

    PROTOCOL = NAME
    LOGIN = Amqp091LoginHandshake
    PACKED_LEG = Amqp091PackedLeg
    HEARTBEAT = HEARTBEAT_FRAME

    legs: Mapping[Peer, Amqp091Leg]
    passage: PassThrough | Amqp091Interceptor
    metered: SessionMeter[MessageMeter] | None

    def __init__(self, parts: SessionParts[Any], services: SessionServices) -> None:
        super().__init__(parts, services)
        report = parts.report
        self.legs = {
            peer: new_leg(peer, transport, services.limits, services.metrics, report, services.turns)
            for peer, transport in parts.transports.items()
        }
        self.metered = None
        self._is_needed = self._is_renewing = False
        self._handshake: PacedHandshake | None = None
        self._renew: Callable[[Secret], Awaitable[bool]] | None = None
        self._secrets: deque[Secret] = deque()
        self.passage = self._new_pass_through(parts.known)
        self._observer = ClientObserver(self.legs[CLIENT].connection, self.passage, report, services.topology)

    # --- passages and directions

    def _new_pass_through(self, client: Client, before: Any = None) -> PassThrough:
        if before is not None:
            for leg in self.legs.values():
                leg.reader.unseen = None
        return PassThrough(self.legs, client, self._met, is_tapped=self._is_tapped)

    def _new_interceptor(self, rules: RuleSet) -> Amqp091Interceptor:
        client, met = self.passage.client, self._met
        return Amqp091Interceptor(
            {peer: leg.connection for peer, leg in self.legs.items()},
            rules.evaluator(client),
            client,
            random=random.random,
            time=time.time,
            met=lambda sender, method: met.append((sender, method)),
            is_tapped=self._is_tapped,
            share=self._share,
            body_limit=self._limits.rule_body,
        )

    def _new_direction(self, source: Peer, received: bytes, *, is_open: bool) -> Amqp091Direction:
        pacing = None
        if source is CLIENT and not is_open:
            pacing = self._handshake = PacedHandshake(self.legs[CLIENT], self._limits.initial_frame_max, received)
        return Amqp091Direction(self.legs[source], self.passage, self._note, self._report.note_frames, pacing)

    def _new_drain(self) -> Drain:
        return Drain(self.legs[CLIENT], {peer: leg.reader for peer, leg in self.legs.items()})

    def _begun(self, *, is_open: bool) -> None:
        if not is_open:
            for leg in self.legs.values():
                leg.connection.receive_header(CLIENT, HEADER)
        messages = self._report.metrics.messages
        if messages is not None and self.metered is None:
            self.metered = SessionMeter(MessageMeter(messages), self._report.number, self._report.name)

    def _replace_passage(self, passage: Any) -> None:
        super()._replace_passage(passage)
        passage.answers = None if self._renew is None else self._answers
        self._observer.passage = passage

    def _may_drop_interceptor(self) -> bool:
        passage = self.interceptor
        return not (
            self._is_needed
            or passage.evaluator.may_act
            or not passage.is_transparent
            or passage.is_over
            or passage.is_draining
            or passage.gate is not None
            or passage.next_deadline != math.inf
            or passage.paused_channels
            or not self.legs[CLIENT].is_open
        )

    def _replace_rules(self, rules: RuleSet) -> None:
        self._is_needed = self._is_needed or (self.legs[CLIENT].is_open and self.interceptor.evaluator.may_act)
        super()._replace_rules(rules)

    def _interceptor_for_operator(self) -> Any:
        self._is_needed = True
        return super()._interceptor_for_operator()

    # --- effects of passed frames

    def _show_passed(self) -> None:
        for peer in (CLIENT, SERVER):
            for note, frames in self.passage.take_passed(peer):
                self._report.note_frames(peer, frames, note)

    def _on_method(self, sender: Peer, method: Method) -> None:
        if sender is SERVER and self._handshake is not None:
            self._handshake.note_answer()
        if isinstance(method, ConnectionClose):
            self.resume()  # whichever peer closes, the client must be read for its answer
        if isinstance(method, ConnectionStartOk):
            self._report.introduce(self.passage.shown_client)
        elif isinstance(method, ConnectionTuneOk):
            for leg in self.legs.values():  # no leg takes a frame above the proxy's own limit, whatever was negotiated
                agreed = leg.connection.frame_max or self._limits.frame_max
                leg.reader.set_frame_max(min(agreed, self._limits.frame_max))
            self.passage.ask_for_frames()  # bodies have to be cut if the legs have agreed on different frames
        elif isinstance(method, ConnectionClose) and self._closing.reset_if_silent(sender, method.reply_code):
            self._scope.cancel()
        elif isinstance(method, ConnectionOpenOk):
            self._scope.deadline = math.inf
            connection = self.legs[CLIENT].connection
            self._handshake = None
            self.settle_upstream()
            self._report.note_open(connection.virtual_host, connection.heartbeat)
            impair(self.passage.start(trio.current_time(), is_open=True), self.legs, self._tasks)
        else:
            self._report.note_method(sender, method, trio.current_time())

    def _upstream_ended(self) -> None:
        if self._handshake is not None:
            self._handshake.end()

    def _measure(self, is_server: bool, data: bytes | memoryview, now: float) -> None:
        if self.metered is not None:
            self.metered.feed(is_server, data, now)

    def _login(self) -> MirrorLogin | None:
        upstream = self.legs[SERVER].connection
        if upstream.client is None:
            return None
        return MirrorLogin(upstream.client, upstream.virtual_host, self.passage.client.upstream)

    async def run(self, nursery: trio.Nursery, received: bytes = b"", answer: bytes = b"") -> None:
        """Relay both directions; `received` is kept by `begin`, to be paced as what follows."""
        await super().run(nursery, answer=answer)

    # --- for the control socket

    @property
    def meter(self) -> MessageMeter | None:
        """The connection's message meter, if messages are counted."""
        return None if self.metered is None else self.metered.meter

    def _handshake_facts(self) -> HandshakeSnapshot:
        connection, shown = self.legs[CLIENT].connection, self.passage.shown_client
        assert connection.client is not None
        properties = json_value(connection.client.client_properties)
        if self.interceptor is not None and shown.properties != self.interceptor.client.properties:
            properties = json_mapping(shown.properties)
        return HandshakeSnapshot(
            user=known_text(shown.user),
            mechanism=known_text(connection.client.mechanism),
            virtual_host=known_text(shown.vhost),
            client_properties=properties,
            channel_max=connection.channel_max,
            frame_max=connection.frame_max,
            heartbeat=connection.heartbeat,
        )

    @property
    def _has_unsent_replies(self) -> bool:
        return self.interceptor is not None and self.interceptor.has_output(CLIENT)

    def _open_state(self, offset_ns: int) -> OpenState:
        connection = self.legs[CLIENT].connection
        found = Amqp091ChannelSnapshots(connection.channels, self.passage, self.meter, self.channel_views, offset_ns)
        return found, found.requests_of_connection()

    def has_open_channel(self, number: int) -> bool:
        channels = [leg.connection.channels.get(number) for leg in self.legs.values()]
        return all(channel is not None and channel.takes_frames for channel in channels)

    @property
    def channel_count(self) -> int:
        return len(self.legs[CLIENT].connection.channels)

    @property
    def client_requests(self) -> ClientRequests | None:
        return self._observer.requests

    # --- the proxy's own token

    def renew_secret(self, token: Secret) -> bool:
        """Send connection.update-secret; the broker's answer to it is not forwarded."""
        if self._tasks is None or not self.is_open or self.passage.gate is not None:  # a drain, or an earlier one
            return False
        self._is_renewing = True
        self.passage.gate = self._passes_renewal
        self.passage.ask_for_frames()
        self._tasks.start_soon(self._pass_secret, token, "renewed by the proxy")
        return True

    async def _pass_secret(self, secret: Secret, reason: str) -> None:
        """Send the broker a secret, by which mirrors log in from now on."""
        upstream = self.legs[SERVER]
        if upstream.connection.client is not None:
            upstream.connection.client = rewritten(upstream.connection.client, lambda name: name, None, secret)
        update = ConnectionUpdateSecret(secret.reveal().encode("utf-8", "surrogateescape"), reason)
        with suppress(TransportBroken):  # the relay of this direction reports the failure
            await upstream.transport.send(upstream.send_own(update))

    def _passes_renewal(self, sender: Peer, frame: Frame) -> bool:
        is_answer = (
            self._is_renewing
            and sender is SERVER
            and frame.kind == METHOD
            and frame.index == ConnectionUpdateSecretOk.index
        )
        if not is_answer or not self._is_renewing or self._tasks is None:
            return True  # a second one answers the client's own
        self._is_renewing = False
        self._report.note_own_frames(SERVER, SERVER, [frame])
        self._tasks.start_soon(self._end_renewal)
        return False

    async def _end_renewal(self) -> None:
        """Forward unread again, unless a drain has begun meanwhile."""
        if self.passage.gate == self._passes_renewal:
            self.passage.gate = None
            self.passage.ask_for_frames()

    # --- the client's secrets

    def answer_secrets(self, renew: Callable[[Secret], Awaitable[bool]]) -> None:
        self._renew = renew
        self.passage.answers = self._answers

    def _answers(self, sender: Peer, frame: Frame) -> bool:
        """Whether a frame is the client's connection.update-secret, which the proxy answers; begin to answer it."""
        if sender is not CLIENT or frame.kind != METHOD or frame.index != ConnectionUpdateSecret.index:
            return False
        self._report.note_own_frames(CLIENT, CLIENT, [frame])
        if len(self._secrets) >= MOST_SECRETS or frame.length() > self._limits.initial_frame_max:
            self._refuse_secret("New secret was refused by one of the backends")
            return True
        self._secrets.append(Secret(frame.method.new_secret.decode("utf-8", "surrogateescape")))
        if len(self._secrets) == 1 and self._tasks is not None:
            self._tasks.start_soon(self._answer_secrets)
        return True

    async def _answer_secrets(self) -> None:
        """Check the client's secrets one after the other, and answer each as RabbitMQ does."""
        assert self._renew is not None
        while self._secrets:
            secret = self._secrets[0]
            try:
                is_needed = await self._renew(secret)
            except LoginDenied as denied:
                self._refuse_secret(
                    "Secret update failed" if denied.is_failure else "New secret was refused by one of the backends"
                )
                return
            if self._life.state is not SessionState.RELAYING:
                return
            if is_needed:
                await self._pass_secret(secret, "renewed by the client")  # and the client gets the broker's answer
            else:
                client = self.legs[CLIENT]
                with suppress(TransportBroken):  # the relay of the other direction reports the failure
                    await client.transport.send(client.send_own(ConnectionUpdateSecretOk()))
            self._secrets.popleft()

    def _refuse_secret(self, text: str) -> None:
        self._close_for(CLIENT, NotAllowed(text))
        self._scope.cancel()

    def _is_steady(self) -> bool:
        return not self._secrets and super()._is_steady()

    # --- the end

    def _close_of_channel(self, text: str) -> Close:
        """Return a close with 406, as RabbitMQ closes a channel of its own accord."""
        return Close(Scope.CHANNEL, PreconditionFailed.code, PreconditionFailed(text).reply_text, farewell=text)

    def _as_answered(self, sender: Peer, error: ProtocolError, direction: Direction | None) -> ProtocolError:
        """Return the error that RabbitMQ would send a client for this; the log has the details."""
        reader = self.legs[sender].reader
        culprit = direction.culprit if isinstance(direction, Amqp091Direction) else None
        if error is reader.error:
            error.received = reader.refused
            if sender is SERVER and not reader.frames:
                self._recognise_server(error)
        elif culprit is not None:
            error.received = culprit.raw
        if sender is not CLIENT:
            return error
        if error is reader.error:
            return reworded_reading(copy(error), reader.refused, reader.frame_max)
        return error if culprit is None else reworded(copy(error), culprit, self.legs[CLIENT].connection.state)

    def _recognise_server(self, error: ProtocolError) -> None:
        """Identify the protocol of a server that answered in another one, and keep its header for the client."""
        text = foreign_answer(error.received)
        if not text:
            return
        error.text, error.offset = text, 0
        if error.received[:4] == HEADER[:4]:  # section 4.2.2: the client learns which protocol the server takes
            self._closing.server_header = error.received[: len(HEADER)]

    def _passes_drain(self, sender: Peer, frame: Frame) -> bool:
        passes = super()._passes_drain(sender, frame)
        if not passes and frame.channel == 0:  # such as the answer to the proxy's close
            self._report.note_own_frames(sender, sender, [frame])
        return passes

    def _note_leaving(self) -> None:
        self.passage.is_draining = True  # channels are no longer shown to the legs

    def forget_shown(self) -> None:
        self._observer.forget()

    def end_observing(self) -> None:
        self._observer.end()

    def let_go(self) -> None:
        super().let_go()
        self._observer.let_go()
        self._renew = self.passage.answers = None

    # --- ownership by a pump

    @property
    def first_known(self) -> Client | None:
        """The client as known before its first frame; `None` while there is an interceptor."""
        return self.passage.first_known if isinstance(self.passage, PassThrough) else None

    @property
    def requests(self) -> ClientRequests | None:
        return self._observer.requests

    def go_on(self, known: Client, metered: Any, requests: ClientRequests | None, kept: Any) -> None:
        super().go_on(known, metered, requests, kept)
        self._observer.go_on_with(requests)

    def _lease(self, descriptors: tuple[int, int], returned: Callable[[], object]) -> AnyPumped | None:
        pumps = self._services.pumps
        assert pumps is not None
        readers = self.legs[CLIENT].reader, self.legs[SERVER].reader
        for reader in readers:
            if reader.is_paused or reader.error is not None or reader.held_size > pumps.most_held:
                return None
            if any(state.is_watched or state.is_shown for state in reader.content_states.values()):
                return None
        note = None if self.metered is None or self.metered.meter is None else self.metered.feed
        kind = Amqp091IdleConnection if pumps.is_idle_only else Amqp091PumpedConnection
        return kind(readers, descriptors, returned, note)
