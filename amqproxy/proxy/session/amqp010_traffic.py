"""What passes between the legs of one session of AMQP 0-10, and what follows from it besides sending."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress

import trio

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
from amqproxy.amqp010.frame import encode_method
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.protocol_header import HEADER, NAME
from amqproxy.amqp010.transitions import SessionState as SessionPhase
from amqproxy.amqp091.errors import Scope
from amqproxy.amqp091.protocol_header import foreign_answer
from amqproxy.conversion.method_views import DEFAULT_VHOST
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp010_interception.interceptor import AMQP010Interceptor
from amqproxy.proxy.amqp010_leg import AMQP010Leg
from amqproxy.proxy.faulty_transport import EndedByFault, cause_of_end
from amqproxy.proxy.memory_budget import MemoryShare
from amqproxy.proxy.session.amqp010_drain import AMQP010Drain
from amqproxy.proxy.session.amqp010_pass_through import AMQP010PassThrough
from amqproxy.proxy.session.amqp010_passage import AMQP010Passage
from amqproxy.proxy.session.amqp010_relay import AMQP010Relay
from amqproxy.proxy.session.amqp010_rules import AMQP010Rules
from amqproxy.proxy.session.amqp010_session_meter import AMQP010SessionMeter
from amqproxy.proxy.session.closing import SHUTDOWN, Closing
from amqproxy.proxy.session.ownership import Handover, Ownership
from amqproxy.proxy.session.relay import DirectionEnding
from amqproxy.proxy.session.session_report import SessionEnd, SessionReport
from amqproxy.proxy.session.session_services import SessionServices
from amqproxy.proxy.session.session_state import SessionEvent, SessionLife, SessionState
from amqproxy.proxy.session.session_tasks import SessionTasks
from amqproxy.proxy.session.traffic import end_soon
from amqproxy.proxy.tap_brake import TapBrake
from amqproxy.pump.pumps import AnyPumped
from amqproxy.rules.client_info import updated_amqp010_client
from amqproxy.rules.context import Client
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.verdict import Close, Verdict
from amqproxy.sockets.transport import SocketTransport, Transport, TransportBroken
from amqproxy.taps.amqp010_record import plain
from amqproxy.taps.amqp010_session_ends import SessionEnds
from amqproxy.taps.topology.client_requests import ChannelView

_HEARTBEAT = encode_method(0, ConnectionHeartbeat())
_CONTROLS_OF_CONNECTION = (0, int(Track.CONTROL))


class AMQP010Traffic:
    """Relays both directions between a client and its upstream, through the `passage` between their legs.

    `metered` counts the messages. `life` is that of the session, and `closing` knows how it ends. `scope` is the
    session's: its deadline, the one for the handshake, is lifted when the connection is open, or cannot be read. What
    rules keep counts for the session's `share`. With `services.pumps`, one of them relays while none of this is needed;
    `Session.recall` before doing anything to what passes.
    """

    def __init__(
        self,
        client: Transport,
        upstream: Transport,
        known: Client,
        life: SessionLife,
        closing: Closing,
        report: SessionReport,
        scope: trio.CancelScope,
        services: SessionServices,
        share: MemoryShare,
    ) -> None:
        self._life = life
        self._closing = closing
        self._report = report
        self._scope = scope
        self._services = services
        self._share = share
        self._announce: Callable[[int], None] = _ignore
        self._close_timeout = services.limits.close_timeout
        tallies = report.metrics.amqp010_tallies
        self.legs: Mapping[Peer, AMQP010Leg] = {
            CLIENT: AMQP010Leg(CLIENT, client, tallies, report, services.turns),
            SERVER: AMQP010Leg(SERVER, upstream, tallies, report, services.turns),
        }
        closing.partings = self.legs
        self._met: list[tuple[Peer, int, Method]] = []
        self.metered = AMQP010SessionMeter(report.metrics, report.number, report.name, services.topology)
        self._ends = SessionEnds()
        self._is_login = True
        self._rule_set: RuleSet | None = None
        self.rules: AMQP010Rules | None = None
        self._may_drop_rules = False
        self._tasks: SessionTasks | None = None
        self._drain: AMQP010Drain | None = None
        self._relays: tuple[AMQP010Relay, ...] = ()
        self.passage: AMQP010Passage = self._new_pass_through(known)
        self._show_observer(self.passage)
        self.ownership: Ownership | None = None
        """Who receives and sends, where that may be a pump."""
        self._ended_by: Peer | None = None

    def _new_pass_through(
        self, known: Client, numberings: Mapping[Peer, CommandNumbering] | None = None
    ) -> AMQP010PassThrough:
        return AMQP010PassThrough(
            self.legs,
            known,
            self._met,
            self.metered.saw,
            self._note_deviation,
            is_tapped=self._report.tap is not None,
            numberings=numberings,
        )

    def _relay(self, source: Peer, brake: TapBrake | None) -> AMQP010Relay:
        return AMQP010Relay(
            self.legs[source],
            self.legs[source.other],
            self.passage,
            self._drop_rules,
            self._follow_up,
            self._greet,
            self._report.metrics.latency.observe,
            self._note_violation,
            self._note_fault,
            brake,
            self._report.number,
            self.ownership,
        )

    @property
    def is_open(self) -> bool:
        """Is the connection past its handshake, and neither peer ending it?"""
        return all(leg.is_open for leg in self.legs.values())

    @property
    def channel_views(self) -> Mapping[int, ChannelView]:
        """The consumers of the client's sessions as they may be shown, by the numbers of their channels."""
        return {} if self.metered.observer is None else self.metered.observer.channels

    @property
    def sessions(self) -> dict[int, bytes]:
        """The names of the sessions that the client is attached to, by the numbers of their channels."""
        channels = self.legs[CLIENT].connection.channels
        return {number: each.session.name for number, each in channels.items() if each.session is not None}

    def has_session(self, number: int) -> bool:
        """Is the client attached to a session on a channel, and the broker, too, as far as can be read?"""
        if not self.is_readable:
            return False  # nothing of ours could come between the frames
        channels = [leg.connection.channels.get(number) for leg in self.legs.values()]
        return all(
            channel is not None and channel.session is not None and channel.session.state is SessionPhase.ATTACHED
            for channel in channels
        )

    # --- from beginning to end

    def begin(
        self,
        tasks: SessionTasks,
        rules: RuleSet | None,
        announce: Callable[[int], None],
        park: Callable[[Handover], bool],
        *,
        is_parked: bool = False,
    ) -> None:
        """Both legs are connected. With `rules`, these decide what passes.

        `announce` is called with the number of each command that waits for an operator; `park` is that of `Ownership`.
        An open connection that has been parked goes on where it was.
        """
        self._tasks = tasks
        self._announce = announce
        pumps = self._services.pumps
        if pumps is not None and all(isinstance(leg.transport, SocketTransport) for leg in self.legs.values()):
            self.ownership = Ownership(pumps, self.legs, self._is_steady, self._lease, park)
        self._relays = tuple(self._relay(peer, self._services.brake) for peer in (CLIENT, SERVER))
        if is_parked:
            for relay in self._relays:
                relay.go_on()
        if rules is not None:
            self.apply_rules(rules, set())

    async def run(self, nursery: trio.Nursery, received: bytes) -> None:
        """Until it is over, or parked. `received` is what the client has sent so far."""
        client, server = self._relays
        nursery.start_soon(self._carry, server, b"", nursery.cancel_scope)
        await self._carry(client, received, nursery.cancel_scope)

    async def _carry(self, relay: AMQP010Relay, received: bytes, scope: trio.CancelScope) -> None:
        by = reason = ""
        try:
            if await relay.run(received) is DirectionEnding.PARKED:
                return
            if self._life.state is not SessionState.LEAVING:
                await self._release_all()
        except ProtocolError as error:
            assert self.rules is not None  # without, all passes
            self.rules.close(relay.source.peer, error)
            await self.rules.linger(relay.source)
        except TransportBroken as error:  # whichever of the two it is, there is nothing to be carried any more
            cause = cause_of_end(relay.source.transport, error)
            reason = str(cause)
            by = "proxy" if isinstance(cause, EndedByFault) else ""
            scope.cancel()
        sender = relay.source.peer
        if self._life.state is SessionState.LEAVING:
            if sender is CLIENT:
                with suppress(TransportBroken):
                    await relay.source.transport.send_eof()
                scope.cancel()
            return  # whatever becomes of the upstream, the client has its time to answer
        if self._ended_by is None:
            self._ended_by = sender
            reason = reason or ("closed without connection.close" if self.is_open else "closed")
            name = "client" if sender is CLIENT else "upstream"
            self._report.finish(SessionEnd(by or str(sender), 0, f"{name} {reason}", is_abnormal=self.is_open))
            end_soon(scope, self._close_timeout)
        try:
            await relay.target.transport.send_eof()
        except TransportBroken:
            scope.cancel()

    async def _release_all(self) -> None:
        """Send all that waits, since there is nothing more to wait for."""
        if self.rules is not None:
            await self.rules.release_all()

    async def settle(self) -> None:
        """Send what a client that is gone by now has sent, and that is not to be refused: as if its time had come."""
        if self.rules is not None and self._closing.upstream_takes_more:
            with trio.move_on_after(self._close_timeout), suppress(TransportBroken):
                await self.rules.settle()

    def apply_tap(self) -> None:
        """Show the report's tap, if it has one now, what passes from here on."""
        self.passage.is_tapped = self._report.tap is not None

    def let_go(self) -> None:
        """The session is parked: refer to nothing any more that refers to this."""
        self.stop()
        self._announce = _ignore
        if self.ownership is not None:
            self.ownership.let_go()
            self.ownership = None
        self._show_observer(None)
        self.passage.end()

    def stop(self) -> None:
        """Nothing is relayed any more."""
        self._tasks = None
        for relay in self._relays:
            relay.drain = None
        self._relays = ()

    def end(self) -> None:
        """The session is over."""
        self.stop()
        self.metered.close()
        if self.rules is not None:
            self.rules.end()
        self.let_go()

    # --- pumps

    def _is_steady(self) -> bool:
        """Is there nothing to be done with what passes but to send it on, and to count it?"""
        self._drop_rules()
        passage = self.passage
        return (
            isinstance(passage, AMQP010PassThrough)
            and passage.gate is None
            and not passage.is_tapped
            and self.is_readable
            and self.is_open
            and self._tasks is not None
            and self._life.state is SessionState.RELAYING
            and self._report.end is None
            and all(relay.is_steady for relay in self._relays)
        )

    def _lease(self, descriptors: tuple[int, int], returned: Callable[[], object]) -> AnyPumped | None:
        """The connection as a pump takes it; None where that is not possible."""
        passage, pumps = self.passage, self._services.pumps
        assert pumps is not None
        readers = self.legs[CLIENT].reader, self.legs[SERVER].reader
        if not isinstance(passage, AMQP010PassThrough):
            return None
        if any(each.is_paused or each.error is not None or each.held_size > pumps.most_held for each in readers):
            return None
        if pumps.is_idle_only and any(each.is_mid_assembly for each in readers):
            return None
        note = None if self.metered.is_lost else self.metered.feed
        numberings = passage.numberings[CLIENT], passage.numberings[SERVER]
        return pumps.amqp010_connection(readers, numberings, self.sessions, descriptors, returned, note)

    @property
    def first_known(self) -> Client | None:
        """What is known of the client, from which all that its first controls say can be known again; None where more
        is to be kept: while there is an interceptor, or a session is ending, or where the client has said only later
        who it is."""
        passage = self.passage
        if not isinstance(passage, AMQP010PassThrough) or self._ends.are_awaited:
            return None
        return passage.client if self._known_again(passage.client).user == passage.client.user else None

    def _known_again(self, known: Client) -> Client:
        """What is known of the client by its first controls."""
        connection = self.legs[CLIENT].connection
        assert connection.client is not None
        known = updated_amqp010_client(known, connection.client, plain)
        return updated_amqp010_client(known, ConnectionOpen(connection.virtual_host), plain)

    @property
    def numberings(self) -> tuple[CommandNumbering, CommandNumbering] | None:
        """The ids of the client's commands, and of the server's; None while there is an interceptor."""
        passage = self.passage
        return (
            (passage.numberings[CLIENT], passage.numberings[SERVER])
            if isinstance(passage, AMQP010PassThrough)
            else None
        )

    def go_on(
        self, known: Client, metered: object, numberings: tuple[CommandNumbering, CommandNumbering] | None
    ) -> None:
        """Be as the traffic of an open connection that was parked, whose legs have been made again."""
        assert isinstance(metered, AMQP010SessionMeter)
        assert numberings is not None
        self._show_observer(None)  # the one before it would keep the passage, and that keep it
        self.metered = metered
        self._is_login = False
        by_sender = dict(zip((CLIENT, SERVER), numberings, strict=True))
        self.passage = self._new_pass_through(self._known_again(known), by_sender)
        self._show_observer(self.passage)

    # --- rules

    @property
    def is_readable(self) -> bool:
        """Can rules follow what passes? Not behind what may not come, which has passed."""
        return self.passage.is_followed and all(leg.is_framed for leg in self.legs.values())

    def apply_rules(self, rules: RuleSet, kept: set[str]) -> None:
        """Go by other rules from the next command of each channel on; those that are `kept` go on with what they do to
        bytes. To go by any, it has to be readable."""
        self._rule_set = rules
        if self.rules is not None:
            self.rules.apply(rules, kept)
        elif rules.rules:
            self._intercept(rules)
        self._look_at_need()
        self._drop_rules()

    def _intercept(self, rules: RuleSet) -> AMQP010Rules:
        """Have an interceptor take what comes from here on, between two chunks."""
        before = self.passage
        assert isinstance(before, AMQP010PassThrough)
        self.rules = made = AMQP010Rules(
            self.legs,
            before.client,
            self._met,
            self.metered.saw,
            rules,
            self._report,
            self._services,
            self._share,
            self._announce,
            self._note_passed,
            before.numberings,
        )
        made.interceptor.join(
            {peer: leg.reader.open_tracks for peer, leg in self.legs.items()}, self.metered.attachment
        )
        made.interceptor.gate = before.gate
        before.end()
        self._replace_passage(made.interceptor)
        if self._tasks is not None:
            made.begin(self._tasks, self._relays)
        return made

    def _look_at_need(self) -> None:
        """Note whether there are rules that can hold for the client."""
        self._may_drop_rules = self.rules is not None and not self.rules.interceptor.evaluator.may_act

    def _drop_rules(self) -> None:
        """Go on without an interceptor where none of the rules can hold for this client, and nothing is left of any."""
        if not self._may_drop_rules or self.rules is None or not self.is_open:
            return
        interceptor = self.rules.interceptor
        if interceptor.is_transparent and not any(leg.reader.is_paused for leg in self.legs.values()):
            self._may_drop_rules = False
            self._show_passed()
            self.rules.end()
            self.rules = None
            following = self._new_pass_through(interceptor.client, interceptor.numberings)
            following.gate = interceptor.gate
            self._replace_passage(following)
            interceptor.end()

    def _replace_passage(self, passage: AMQP010Passage) -> None:
        self.passage = passage
        self._show_observer(passage)
        for relay in self._relays:
            relay.passage = passage

    def _show_observer(self, passage: AMQP010Passage | None) -> None:
        """Have what observes the client know it by this passage from here on."""
        if self.metered.observer is not None:
            self.metered.observer.passage = passage

    # --- what an operator wants

    def release(self, number: int, verdict: Verdict | None) -> None:
        """Send on a held command, with another verdict if one is given. `KeyError` when it is not held."""
        if self.rules is None:
            raise KeyError(number)
        self.rules.release(number, verdict)

    def _interceptor(self) -> AMQP010Interceptor:
        """The interceptor; where there are no rules, there is one for as long as it is needed."""
        rules = self.rules or self._intercept(self._rule_set or RuleSet(()))
        self._look_at_need()
        return rules.interceptor

    def close_session(self, number: int, code: int, text: str) -> None:
        """Close the session on a channel for both peers."""
        self._interceptor().close_channel(number, Close(Scope.CHANNEL, code, text), trio.current_time())
        self.send_changes()

    def pause_channel(self, number: int) -> None:
        """Let the client's commands on a channel wait from the next one on, in order."""
        self._interceptor().pause_channel(number, trio.current_time())

    def resume_channel(self, number: int) -> None:
        """Let go on what the client has sent on a paused channel."""
        if self.rules is not None:
            self.rules.interceptor.resume_channel(number, trio.current_time())
            self.send_changes()

    @property
    def paused_channels(self) -> list[int]:
        """The numbers of the channels on which the client's commands wait to be resumed."""
        return [] if self.rules is None else self.rules.interceptor.paused_channels

    def send_changes(self) -> None:
        """Send both peers what there is for them, since something was changed from outside."""
        if self.rules is not None and self._tasks is not None:
            self._tasks.start_soon(self.rules.send_output)

    def pause(self) -> None:
        """Read nothing more from the client."""
        self._relays[0].pause()

    def resume(self) -> None:
        """Read from the client again."""
        for relay in self._relays:
            relay.resume()

    @property
    def is_paused(self) -> bool:
        return any(relay.is_paused for relay in self._relays)

    # --- heartbeats

    @property
    def owes_heartbeats(self) -> bool:
        """Does the broker expect heartbeats that do not come, since a rule has limited the client's interval, or since
        the client is not read from?"""
        upstream = self.legs[SERVER]
        if not upstream.connection.heartbeat or not upstream.takes_close:
            return False
        if self._relays and self._relays[0].is_unread:
            return True
        return not 0 < self.legs[CLIENT].connection.heartbeat <= upstream.connection.heartbeat

    async def send_heartbeat(self) -> None:
        """Send the broker a heartbeat, unless that would come within a control of the client's."""
        upstream = self.legs[SERVER]
        if upstream.takes_close and _CONTROLS_OF_CONNECTION not in self.legs[CLIENT].reader.open_tracks:
            with suppress(TransportBroken):  # its own direction reports what happened
                await upstream.transport.send(_HEARTBEAT)

    # --- draining

    def drain(self, tasks: SessionTasks) -> None:
        """Complete the commands in progress, then send the client connection.close."""
        self._life.move(SessionEvent.DRAIN)
        self.resume()
        readers = {peer: leg.reader for peer, leg in self.legs.items()}
        self._drain = drain = AMQP010Drain(self.legs[CLIENT], readers)
        for relay in self._relays:
            relay.drain = drain
        self.passage.gate = drain.passes
        if self.rules is not None:
            self.rules.interceptor.release_all(trio.current_time())
        tasks.start_soon(self._go_on_draining, drain, tasks)
        self._close_if_drained(drain, tasks)

    async def _go_on_draining(self, drain: AMQP010Drain, tasks: SessionTasks) -> None:
        """Send what is released, by turns; the client is sent its close behind all of it."""
        if self.rules is not None:
            await self.rules.go_on_releasing()
        self._close_if_drained(drain, tasks)

    def _close_if_drained(self, drain: AMQP010Drain, tasks: SessionTasks) -> None:
        """Send the client connection.close, once the commands in progress at the start of the drain are complete."""
        if self._life.state is not SessionState.DRAINING:
            return
        if self.rules is not None:
            interceptor = self.rules.interceptor
            if interceptor.is_over or interceptor.is_releasing:
                return  # it ends for that, or is asked again
        close = drain.close(SHUTDOWN)
        if close is None:
            return
        before = bytes(self.passage.take_output(CLIENT))
        self._life.move(SessionEvent.DRAINED)
        self._closing.drained()
        end_soon(tasks.cancel_scope, self._close_timeout)
        tasks.start_soon(drain.send_close, before + close)

    # --- what follows from what has passed

    def _greet(self, sender: Peer, header: bytes) -> bool:
        """Take a peer's protocol header: do frames follow?"""
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

    def _follow_up(self) -> None:
        if self.rules is not None:
            self.rules.follow_up()
        self._note_passed()
        if self._drain is not None and self._tasks is not None:
            self._close_if_drained(self._drain, self._tasks)

    def _note_passed(self) -> None:
        """Do what follows for the session itself from what has passed, and show it to the tap."""
        for sender, channel, method in self._met:
            self._on_method(sender, channel, method)
        self._met.clear()
        self._report.note_channels(self.legs[CLIENT].connection.session_count)
        self._show_passed()

    def _show_passed(self) -> None:
        """Show the tap, if there is one, what has passed."""
        if self._report.tap is not None:
            for peer in (CLIENT, SERVER):
                for note, chunk in self.passage.take_passed(peer):
                    self._report.note_amqp010_frames(peer, chunk, note)

    def _on_method(self, sender: Peer, channel: int, method: Method) -> None:
        match method:
            case ConnectionStartOk():
                self._report.introduce(self.passage.shown_client)
            case ConnectionTune():
                self._is_login = False
            case ConnectionOpenOk():
                self._lift_deadline()
                connection = self.legs[CLIENT].connection
                self._report.note_open(connection.virtual_host or DEFAULT_VHOST, connection.heartbeat)
                if self.rules is not None:
                    self.rules.opened()
                self._look_at_need()
            case ConnectionClose():
                self.resume()  # whichever peer closes, the client's answer is needed
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
        """Note that a peer sent what cannot be read: it passes all the same."""
        self._lift_deadline()
        self.metered.close()
        self._report.note_passed_violation(sender, error, "passes unread from here on")

    def _note_deviation(self, sender: Peer, error: ProtocolError) -> None:
        """Note that a peer sent a control of the connection's own that may not come."""
        self._lift_deadline()
        self._report.note_passed_violation(sender, error, "passes all the same")

    def _note_fault(self, sender: Peer, failure: Exception) -> None:
        """A fault of ours: what this peer sends passes unread from here on."""
        self._lift_deadline()
        self.metered.close()
        with self._report.contained(f"what the {sender} sends is not read any further"):
            raise failure


def _ignore(number: int) -> None:
    """No operator is waiting for held commands."""
