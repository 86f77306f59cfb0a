"""A client connection together with the broker connection that serves it.

A session receives the client's protocol header, connects to the broker, relays both directions, and closes both
connections. A `Relay` for each direction forwards frames through a `Passage`, unchanged or as rules decide.
However a session ends, each peer is sent a close that it understands.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

import msgspec
import trio

from amqproxy.amqp091.errors import ConnectionForced
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.configuration.config import Unread
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.process.supervision import contained, report
from amqproxy.proxy.admission_queue import Departed, QueueFull
from amqproxy.proxy.logins.attempt import Identity, LoginAttempt
from amqproxy.proxy.logins.credential import Credential, CredentialSource
from amqproxy.proxy.logins.handshake import LoginHandshake
from amqproxy.proxy.logins.login_check import Login, LoginCheck
from amqproxy.proxy.logins.login_renewal import LoginRenewal
from amqproxy.proxy.session.closing import FAILURE, SHUTDOWN
from amqproxy.proxy.session.farewell import DrainStart, drain_start
from amqproxy.proxy.session.login_mask import LoginMask
from amqproxy.proxy.session.login_transport import CredentialOf, Dial, LoginTransport
from amqproxy.proxy.session.opening import Opening, receive_opening, turn_away, with_tls
from amqproxy.proxy.session.ownership import Handover
from amqproxy.proxy.session.parked_session import ParkedSession
from amqproxy.proxy.session.session_parts import SessionParts
from amqproxy.proxy.session.session_report import SessionEnd
from amqproxy.proxy.session.session_services import SessionServices
from amqproxy.proxy.session.session_state import SessionEvent, SessionState
from amqproxy.proxy.session.session_tasks import SessionTasks
from amqproxy.proxy.session.session_view import SessionView
from amqproxy.proxy.session.traffic import Traffic, end_soon
from amqproxy.proxy.session.tunnel import Tunnel
from amqproxy.proxy.session.unread import refusal_of
from amqproxy.proxy.upstream import Unreachable
from amqproxy.proxy.upstreams.client_pools import ClientPools, Pinning
from amqproxy.proxy.upstreams.member import Member
from amqproxy.proxy.upstreams.reach import BrokerLogin, Reach, Reached
from amqproxy.rules.context import Client
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.rewriting.secret import Secret
from amqproxy.rules.verdict import Verdict
from amqproxy.sockets.certificate import NAMINGS, common_name_in
from amqproxy.sockets.transport import SocketTransport, Transport
from amqproxy.taps.tap import Tap


class Session(SessionView):
    """A client connection, from the client's first byte to the broker's last.

    `number` counts the sessions of this run; `name` is the addresses of both ends as the client sees them, its own
    first; `connected_at` is in seconds since 1970. `reach` connects to the broker. `dialects` are the decoded
    protocols, keyed by the names that `recognise` gives their headers. `client` is what is known of the client so far;
    `rules` are the ones applied to it: without any, frames pass unchanged. `unread` is the listener's choice for
    protocols that are not decoded, `login` the way in which clients log in at the proxy, if they do. `find_pools`
    returns the pools of a client's broker, if any broker has some. `on_hold` is called with the number of each command
    that waits for an operator.

    While a pump has the connection, the session may be parked: `run` has returned, and its parts are reduced to the
    data needed to rebuild them. They are rebuilt temporarily for each inspection. When the connection comes back,
    `resume` is called, which has to call `run` again; without `resume` a session is never parked.
    """

    __slots__ = (
        "_dialects",
        "_find_pools",
        "_is_beating",
        "_login",
        "_on_hold",
        "_renewal",
        "_resume",
        "_rules",
        "_token",
        "_tunnel",
        "_unread",
        "_way",
        "connected_at",
        "is_over",
        "login_ends_at",
        "token_source",
    )

    def __init__(
        self,
        number: int,
        transport: Transport,
        name: str,
        reach: Reach,
        services: SessionServices,
        dialects: Mapping[str, type[Traffic]],
        tap: Tap | None = None,
        *,
        rules: RuleSet | None = None,
        unread: Unread = None,
        login: Login | None = None,
        find_pools: Callable[[Client], ClientPools | None] | None = None,
        client: Client | None = None,
        on_hold: Callable[[Session, int], None] = lambda session, number: None,
        resume: Callable[[Session], None] | None = None,
    ) -> None:
        super().__init__(services, number, name)
        self.connected_at = time.time()
        self.is_over = False
        self._dialects = dialects
        self._way: Reach | Member | None = reach  # one slot for what is used before and after: sessions are many
        self._rules = rules
        self._unread = unread
        self._login = login
        self._find_pools = find_pools
        self._renewal: LoginRenewal | None = None
        self._token: Credential | None = None
        self.login_ends_at = math.inf
        """End of the login of a client that has logged in by a token, in seconds since 1970."""
        self.token_source: CredentialSource | None = None
        """The source of the token with which the proxy has logged in for the client, if it has by one."""
        self._on_hold = on_hold
        self._resume = resume
        self._kept_parts = SessionParts(services, number, name, transport, client or Client(session=number), tap)
        self._tunnel: Tunnel | None = None
        self._is_beating = False

    @property
    def unread_protocol(self) -> str:
        """The protocol that is relayed without being decoded; "" if there is none."""
        return "" if self._tunnel is None else self._tunnel.protocol

    @property
    def member(self) -> Member | None:
        """The member of an upstream group that serves the client, once it is connected."""
        return self._way if isinstance(self._way, Member) else None

    # --- ownership by a pump

    def recall(self) -> None:
        """Take the connection back from its pump, if it has one."""
        if self.is_over:
            return
        if self._parked is not None:
            self._parked.handover.pump.recall(self._parked.handover.pumped)
        elif self._ownership is not None:
            self._ownership.recall()

    def _unpark(self) -> None:
        if self._parked is not None:
            self.recall()

    def _park(self, handover: Handover) -> bool:
        """Reduce the session to a `ParkedSession` while a pump has its connection; return whether that was possible."""
        parts, tasks = self._kept_parts, self._nursery
        if parts is None or tasks is None or self._resume is None or self._is_beating or tasks.count > 1:
            return False
        if parts.report.end is not None or parts.scope.cancel_called or self.owes_heartbeats:
            return False
        parked = ParkedSession.of(parts, handover, self, trio.current_time())
        if parked is None:
            return False
        handover.pumped.returned = self._come_back
        self._parked = parked
        self._kept_parts = self._nursery = None
        parts.let_go()
        return True

    def _come_back(self) -> None:
        """Rebuild the session's parts after the pump has returned the connection."""
        parked = self._parked
        assert parked is not None
        assert self._resume is not None
        try:
            parts = parked.parts(self._services, self.number, self.name)
            parts.report.member = self.member
            tasks = SessionTasks()
            assert parts.traffic is not None
            parts.traffic.begin(tasks, self._rules, self._announce_hold, self._park, is_open=True)
            assert parts.traffic.ownership is not None
            parts.traffic.ownership.go_on(parked.handover)
            if self._renewal is not None:
                parts.traffic.answer_secrets(self._renew_login)
            self._kept_parts, self._nursery = parts, tasks
        except Exception as failure:  # noqa: BLE001 - other returning connections must not be affected
            report("session failed", failure, session=self.number)
            end = SessionEnd("proxy", FAILURE.code, "internal error")
            parked.end(self._services, self.number, self.name, end, self.member)
            self.is_over = True
        self._parked = None
        self._resume(self)

    # --- start and end

    async def run(self) -> None:
        """Serve the client until the session ends, which sets `is_over`, or until it is parked."""
        parts = self._kept_parts
        if parts is None or self.is_over:
            return
        is_new = callable(self._way)
        if is_new:
            parts.scope.deadline = trio.current_time() + self._limits.handshake_timeout
        try:
            with self.contained(), parts.scope:
                await (self._serve() if is_new else self._relay())
            if self._kept_parts is not parts:  # the session is parked, or resumed in another task
                return
            self._life.move(SessionEvent.ENDED)
            if parts.scope.cancelled_caught:
                self._report.finish(
                    SessionEnd(
                        "proxy",
                        0,
                        f"no connection.open-ok within {self._limits.handshake_timeout:g} s",
                        is_probe=not self.client_transport.received,
                    )
                )
            if self._closing.is_cut:
                return
            with self.contained():
                await self._closing.reset_lost()
                if self.traffic is not None:
                    await self.traffic.settle()
                await self._closing.send_closes(self.known, self._limits.close_timeout)
                await self._closing.linger()
        finally:
            if self._kept_parts is parts:
                await self._end()

    async def _end(self) -> None:
        """Close both connections and the session report."""
        self.is_over = True
        parts, traffic = self._parts, self.traffic
        with trio.CancelScope(shield=True):
            for transport in parts.current_transports.values():
                with self.contained():
                    await (transport.reset() if parts.closing.is_cut else transport.aclose())
        with self.contained():
            if traffic is not None:
                traffic.show_gap()  # otherwise messages whose ends were not shown would look incomplete
            self._report.close(trio.current_time())
        with self.contained():
            if traffic is not None:
                traffic.end_observing()  # while the redactions for this client are still known
                traffic.end()
        parts.let_go()
        self._life.state = SessionState.OVER

    def contained(self) -> AbstractContextManager[None]:
        """Return a context that ends this session with 541 on an internal error and spares all other sessions."""
        if self.is_parked:
            return contained("session failed", session=self.number)
        return self._report.contained("session failed", self._fail)

    def _fail(self, failure: Exception) -> None:
        self._closing.fail()
        self._scope.cancel()

    async def _serve(self) -> None:
        opening = await self._open()
        if opening is None:
            return
        self._life.move(SessionEvent.HEADER)
        parts = self._parts
        dialect = self._dialects.get(opening.protocol)
        login = self._login or self._login_of_pools(opening.protocol)
        if login is not None and dialect is not None:
            handshake = dialect.LOGIN(login.offer(opening.protocol), self._limits.initial_frame_max)
            reached = Reached(self._login_transport(handshake, login, opening.header, opening.protocol))
        else:
            found = await self._reach(opening)
            if found is None:
                return
            reached = found
        parts.connect(reached.transport)
        if dialect is None:
            if await self._is_served(opening):  # rules may have been loaded meanwhile
                await self._serve_unread(reached.transport, opening)
            return
        tasks = self._nursery = SessionTasks()
        self._life.move(SessionEvent.CONNECTED)
        traffic = parts.speak(dialect, self._services)
        received, answer = opening.behind_header, reached.answer
        traffic.begin(tasks, self._rules, self._announce_hold, self._park, received)
        del opening, reached, parts, traffic, tasks  # not kept alive by the frame of an idle connection
        await self._relay(received, answer)

    async def _reach(self, opening: Opening) -> Reached | None:
        """Connect to the broker, which is sent the header of a decoded protocol; return `None` if that fails."""
        # one that is not decoded is sent nothing, since rules may be loaded meanwhile that refuse its client
        header = opening.header if opening.protocol in self._dialects else b""
        try:
            return await self._connect(header, self.known)
        except Unreachable as error:
            self._report.finish(SessionEnd("proxy", 0, f"upstream {error}"))
            return None

    async def _connect(self, header: bytes, client: Client, login: BrokerLogin | None = None) -> Reached:
        """Connect to the broker; raise `Unreachable` if that fails."""
        began = trio.current_time()
        assert callable(self._way)
        reach, self._way = self._way, None
        reached = await self._reached(reach, header, client, login)
        self._metrics.upstream_up.labels(reached.upstream).set(1)
        self._metrics.connect_seconds.observe(trio.current_time() - began - reached.waited)
        self._take_member(reached.member)
        return reached

    async def _reached(
        self, reach: Reach, header: bytes, client: Client, login: BrokerLogin | None, member: Member | None = None
    ) -> Reached:
        """Connect to the broker in the client's turn; raise `Unreachable` if that fails."""
        try:
            return await reach(header, client, self._unhurried, login, member)
        except QueueFull:
            self._metrics.refused.labels("login-queue").inc()
            raise Unreachable("queue full", "has too many clients that wait to log in: login_queue is full") from None
        except Departed:
            self._report.finish(SessionEnd("client", 0, "closed while it waited to log in", is_abnormal=False))
            raise Unreachable("departed", "was not asked, since the client has hung up") from None
        except Unreachable as error:
            self._metrics.upstream_failures.labels(error.kind).inc()
            self._metrics.upstream_up.labels(error.upstream).set(0)
            raise

    def _take_member(self, member: Member | None) -> None:
        """Note the member that serves the client."""
        self._way = self._report.member = member
        if member is not None and member.address != self.known.upstream:
            self._parts.known = msgspec.structs.replace(self.known, upstream=member.address)
            if self.traffic is not None:
                self.traffic.learn(upstream=member.address)

    def _login_of_pools(self, protocol: str) -> Login | None:
        """Return the login of a client that may share connections; `None` if it may not."""
        pools = self._pools_for(self.known)
        return pools.login if pools is not None and protocol == pools.PROTOCOL else None

    @contextmanager
    def _unhurried(self) -> Iterator[None]:
        """Suspend the deadline of the client's handshake within the block."""
        scope = self._scope
        left, scope.deadline = scope.deadline - trio.current_time(), math.inf
        try:
            yield
        finally:
            scope.deadline = trio.current_time() + left

    def _pools_for(self, client: Client) -> ClientPools | None:
        return None if self._find_pools is None else self._find_pools(client)

    def _login_transport(self, handshake: LoginHandshake, login: Login, header: bytes, protocol: str) -> LoginTransport:
        """Return the upstream's place while the client logs in at the proxy."""
        check = login.check

        way = self._way
        assert callable(way)

        async def reach(client: Client, broker_login: BrokerLogin, member: Member | None) -> Transport:
            if member is None:
                return (await self._connect(header, client, broker_login)).transport
            reached = await self._reached(way, header, client, broker_login, member)
            member.note_disconnected()  # it is the client's second connection, of which the first one counts
            return reached.transport

        def settle(reason: str) -> None:
            self._report.log("info", f"the client has got an upstream connection of its own: {reason}")
            if self.traffic is not None:
                self.traffic.settle_upstream()

        async def share(client: Client, credential_of: CredentialOf, dial: Dial) -> tuple[Transport, bytes] | None:
            pools = self._pools_for(client)
            if pools is None or protocol != pools.PROTOCOL:
                return None
            began = trio.current_time()
            credential = await credential_of(pools.source)
            transport, answer, member = await pools.lease(client, credential, handshake, Pinning(dial, settle))
            member.note_connected(trio.current_time() - began)
            self._take_member(member)
            return transport, answer

        def identify(user: str) -> None:
            if self.traffic is not None:
                self.traffic.learn(identity=user)

        async def beat() -> None:
            if self.traffic is not None:
                await self.traffic.keep_client_alive()

        def accept(attempt: LoginAttempt, identity: Identity, is_passed_on: bool) -> None:
            if not is_passed_on:  # otherwise the broker ends it
                self.login_ends_at = identity.expires_at
            self._renewal = LoginRenewal(login, attempt, identity, is_passed_on=is_passed_on)
            if self.traffic is not None:
                self.traffic.answer_secrets(self._renew_login)

        def follow(source: CredentialSource, credential: Credential) -> None:
            self.token_source, self._token = source, credential

        return LoginTransport(
            handshake,
            check,
            reach,
            known=lambda: self.traffic.passage.client if self.traffic is not None else self.known,
            identify=identify,
            beat=beat,
            accept=accept,
            follow=follow,
            log=self._report.log,
            certificate_name=self._certificate_name(check),
            is_secure=self.client_transport.tls is not None or bool(self.known.tls_subject or self.known.sni),
            share=share if self._find_pools is not None else None,
        )

    def _certificate_name(self, check: LoginCheck) -> str:
        """Return the user in the client's certificate; behind a balancer that ends TLS, what its PROXY header says.

        Such a header has the subject, and no alternative names.
        """
        tls = self.client_transport.tls
        if tls is None:
            subject = self.known.tls_subject
            names = {"common_name": common_name_in(subject), "distinguished_name": subject}
            return names.get(check.certificate_login, "")
        return NAMINGS[check.certificate_login](tls.getpeercert() or {}) or ""

    async def _relay(self, received: bytes = b"", answer: bytes = b"") -> None:
        """Relay both directions until they end or the session is parked.

        `received` holds what the client has sent behind its protocol header, `answer` what the broker has sent.
        """
        parts, tasks = self._kept_parts, self._nursery
        assert parts is not None
        assert tasks is not None
        assert parts.traffic is not None
        try:
            async with trio.open_nursery() as nursery:
                tasks.begin(nursery)
                try:
                    await parts.traffic.run(nursery, received, answer)
                finally:
                    tasks.note_return()
        finally:
            if self._kept_parts is parts:
                self._nursery = None
                parts.traffic.stop()

    def _announce_hold(self, number: int) -> None:
        self._on_hold(self, number)

    async def _serve_unread(self, upstream: Transport, opening: Opening) -> None:
        """Relay a protocol that is not decoded."""
        self._scope.deadline = math.inf
        report, protocol, brake = self._report, opening.protocol, self._services.brake
        login = LoginMask(protocol)
        shown = len(opening.header)

        async def watch(sender: Peer, data: bytes) -> None:
            nonlocal shown
            if brake is not None and brake.is_on:
                await brake.wait(self.number)
            self._metrics.unread_bytes.labels(str(sender)).inc(len(data))
            if sender is CLIENT:
                data, shown = login.feed(data[shown:]), 0
            report.note_bytes(sender, protocol, data)

        self._metrics.unread.labels(protocol).inc()
        self._tunnel = Tunnel(protocol, self.client_transport, upstream, self._limits.close_timeout, watch)
        self._report.log("info", f"{opening.protocol} passes without being read")
        self._nursery = SessionTasks()
        try:
            async with trio.open_nursery() as nursery:
                self._nursery.begin(nursery)
                self._life.move(SessionEvent.UNREAD)
                await self._tunnel.run(nursery, opening.data)
        finally:
            self._nursery = None
        if self._tunnel.ended_by is not None:
            by, reason = self._tunnel.ended_by
            self._report.finish(SessionEnd(by, 0, f"{reason}, after {opening.protocol}", is_abnormal=False))

    async def _open(self) -> Opening | None:
        """Receive the protocol header; return `None` if the client is not served."""
        transport = self.client_transport
        opening = await receive_opening(transport, self._limits.tls_handshake_timeout)
        if isinstance(opening, SessionEnd):
            self._report.finish(opening)
            return None
        self._report.note_protocol_header(opening.header)
        self._parts.known = with_tls(self.known, transport)
        return opening if await self._is_served(opening) else None

    async def _is_served(self, opening: Opening) -> bool:
        """Return whether a client of this protocol is served, after turning it away if not."""
        refusal = opening.refusal(
            is_decoded=opening.protocol in self._dialects, unread_refusal=refusal_of(self._unread, self._rules)
        )
        if refusal is None:
            return True
        self._metrics.refused.labels("protocol").inc()
        self._report.finish(refusal)
        await turn_away(self.client_transport, HEADER, self._limits.close_timeout)
        return False

    # --- rules

    def apply_rules(self, rules: RuleSet) -> None:
        """Apply a new rule set to all further traffic."""
        if rules.rules:
            self.recall()
        elif self.is_parked:
            self._rules = rules
            return
        kept = rules.continued_from(self._rules) if self._rules is not None else set()
        self._rules = rules
        traffic = self.traffic
        if self._tunnel is not None:
            if refusal := refusal_of(self._unread, rules):
                self.abort(f"the proxy does not decode its protocol: {refusal}")
        elif traffic is not None:
            traffic.forget_shown()
            if rules.rules and not traffic.is_readable:
                self.abort("rules cannot follow what has passed on this connection")
            else:
                traffic.apply_rules(rules, kept)

    def apply_tap(self, tap: Tap | None) -> None:
        """Show all further traffic to another tap, or to none."""
        if self.is_parked and tap is None:
            return
        if self._report.tap is not tap:
            self.recall()
            self._report.tap = tap
            if self.traffic is not None:
                self.traffic.apply_tap()

    def count_unseen(self) -> None:
        """Flush the hit counts of publishes that bypassed rule evaluation."""
        if not self.is_parked and self.traffic is not None:
            self.traffic.passage.count_unseen()

    def release(self, number: int, verdict: Verdict | None, note: str | None = None) -> None:
        """Forward a held command, with a replacement verdict if given, and log the note.

        Raises `KeyError` if the command is not held.
        """
        interceptor, traffic = self.interceptor, self.traffic
        if interceptor is None or traffic is None or self._nursery is None or number not in interceptor.waiting:
            raise KeyError(number)
        with self.contained():
            if note is not None:
                self._report.log("info", note)
            traffic.release(number, verdict)

    # --- operator actions

    def close_channel(self, number: int, text: str) -> None:
        """Close a channel of an open connection on both legs, behind the content in progress on it.

        The client is sent 406, as by RabbitMQ when it closes a channel of its own accord.
        """
        self.recall()
        traffic = self.traffic
        assert traffic is not None
        with self.contained():
            self._report.log("info", f"channel {number} closed by an operator: {text}")
            traffic.close_channel(number, text)

    def pause(self, channel: int | None = None) -> None:
        """Stop accepting what the client of an open connection sends, altogether or on one channel.

        The broker's frames still reach the client. The broker is sent heartbeats while the client is not read from.
        """
        self.recall()
        traffic = self.traffic
        assert traffic is not None
        with self.contained():
            if channel is None:
                self._report.log("info", "paused by an operator")
                traffic.pause()
                upstream = self.legs[SERVER].connection
                if upstream.heartbeat:
                    upstream.note_received(CLIENT, trio.current_time())
                    self.send_heartbeat()
            else:
                self._report.log("info", f"channel {channel} paused by an operator")
                traffic.pause_channel(channel)

    def resume(self, channel: int | None = None, by: str = "by an operator") -> None:
        """Resume a paused client or channel, and forward the queued commands in order."""
        traffic = None if self.is_parked else self.traffic
        if traffic is None:
            return
        with self.contained():
            if channel is None:
                self._report.log("info", f"resumed {by}")
                traffic.resume()
            elif traffic.interceptor is not None:
                self._report.log("info", f"channel {channel} resumed {by}")
                traffic.resume_channel(channel)

    def renew_token(self, credential: Credential) -> None:
        """Send the broker the successor of the token with which the proxy has logged in, unless it has it."""
        if self._token is credential:
            return
        self.recall()
        traffic = self.traffic
        if traffic is not None and self._nursery is not None and traffic.renew_secret(credential.password):
            self._token = credential

    async def _renew_login(self, secret: Secret) -> bool:
        """Check a client's next secret; return whether the broker needs it. Raise `LoginDenied` if it is refused."""
        assert self._renewal is not None
        identity = await self._renewal.check(secret)
        if identity is not None and not self._renewal.is_passed_on:
            self.login_ends_at = identity.expires_at
        return self._renewal.is_passed_on

    def has_expired(self, now: float) -> bool:
        """Whether the token with which the proxy has logged in has expired; `now` is in seconds since 1970."""
        return self._token is not None and now >= self._token.expires_at

    # --- ending the session from outside

    def drain(self, reason: ConnectionForced = SHUTDOWN) -> None:
        """End the session with 320 and this reason as soon as the contents in progress are complete."""
        self.recall()
        nursery = self._nursery
        start = drain_start(self.phase, self.legs.get(CLIENT))
        if start is DrainStart.NOT_AGAIN or (nursery is not None and nursery.have_ended):
            return
        if start is DrainStart.ABORT or nursery is None:
            self.abort("drained")
        elif start is DrainStart.AWAIT_CLOSE:
            end_soon(nursery.cancel_scope, self._limits.close_timeout)
        elif self.traffic is not None:
            self.traffic.drain(nursery, reason)

    def close(self, text: str) -> None:
        """End the session with 320 and this text on behalf of an operator."""
        self._unpark()
        if self._nursery is None:
            self.abort(text)  # the peers have not begun to speak AMQP, or the session is ending already
        else:
            self._closing.close(text)
            self._scope.cancel()

    def abort(self, reason: str) -> None:
        """End the session at once, without completing contents in progress."""
        self._unpark()
        self._closing.abort(reason)
        self._scope.cancel()

    def cut(self, reason: str) -> None:
        """Reset both connections, unless closes are being sent; a parked session's parts are not rebuilt for it."""
        parked = self._parked
        if parked is None:
            if self._life.state is SessionState.ENDING:
                return
            self._closing.cut(reason)
            for transport in self.transports.values():
                if isinstance(transport, SocketTransport):
                    transport.reset_now()  # a scheduled relay would otherwise work on until its next checkpoint
            self._scope.cancel()
            return
        assert self._resume is not None
        parked.handover.pumped.returned = _nothing
        self.recall()
        end = SessionEnd("proxy", SHUTDOWN.code, reason)
        parked.end(self._services, self.number, self.name, end, self.member)
        self.is_over = True
        self._parked = None
        self._resume(self)

    def disconnect(self, peer: Peer, reason: str) -> None:
        """End the session and reset the connection to `peer`, which is silent or does not read."""
        self._unpark()
        if self._nursery is None:
            return  # the session is ending already
        self._closing.reset(peer, reason)
        self._scope.cancel()

    def note_upstream_stall(self, seconds: float) -> None:
        """Record for taps how many seconds the broker has accepted none of the pending output."""
        if not self.is_parked:  # a pump returns a connection whose peer accepts nothing
            self._report.stalled_ns = int(seconds * 1e9)

    def refresh(self) -> None:
        """Update legs and meter with what a pump has relayed so far; call this before reading either."""
        if self._parked is not None:
            self._parked.refresh(self._services)
        elif self._ownership is not None:
            self._ownership.refresh()

    # --- heartbeats

    @property
    def owes_heartbeats(self) -> bool:
        """Whether the broker expects heartbeats that the client does not send."""
        return self.traffic is not None and self.traffic.owes_heartbeats

    def send_heartbeat(self) -> None:
        """Send the broker a heartbeat, unless the previous one is still being sent."""
        self._unpark()
        if self._nursery is not None and not self._is_beating:
            self.recall()
            self._is_beating = True
            self._nursery.start_soon(self._send_heartbeat)

    async def _send_heartbeat(self) -> None:
        self.recall()  # one relay may have offered the connection, and the other handed it over meanwhile
        if self.traffic is not None:
            await self.traffic.send_heartbeat()
        self._is_beating = False


def _nothing() -> None:
    """Ignore the return of a connection whose session is over."""
