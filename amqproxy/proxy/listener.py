"""The server that accepts clients and creates a `Session` for each."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from itertools import count

import trio

from amqproxy.amqp091.errors import ConnectionForced
from amqproxy.configuration.config import Limits
from amqproxy.configuration.values import join_address, split_address
from amqproxy.process.log import logger
from amqproxy.process.supervision import contained, kept_up, supervised
from amqproxy.proxy import watchdog
from amqproxy.proxy.admission_queue import AdmissionQueue, Departed, QueueFull
from amqproxy.proxy.admissions import await_turn
from amqproxy.proxy.client_moves import ClientMoves
from amqproxy.proxy.dialects import DIALECTS
from amqproxy.proxy.logins.client_network import client_network
from amqproxy.proxy.logins.credential import Credential, CredentialSource
from amqproxy.proxy.loop_lag import LoopLag
from amqproxy.proxy.memory_budget import MemoryBudget
from amqproxy.proxy.mirroring.mirrors import Mirrors
from amqproxy.proxy.open_listener import ListenerLoad, OpenListener
from amqproxy.proxy.session.rule_log import RuleLog
from amqproxy.proxy.session.session import Session
from amqproxy.proxy.session.session_services import SessionServices
from amqproxy.proxy.session.tap_budget import TapBudget
from amqproxy.proxy.sessions import for_each
from amqproxy.proxy.tap_brake import TapBrake
from amqproxy.proxy.upstreams.upstreams import Upstreams
from amqproxy.pump.pumps import Pumps
from amqproxy.rules.context import Client
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.sockets.proxy_header import BadProxyHeader, ProxyHeader, receive_header
from amqproxy.sockets.proxy_protocol import plain_address
from amqproxy.sockets.tls_socket import secured
from amqproxy.sockets.transport import SocketTransport, has_hung_up, plain_socket
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.tap import Tap
from amqproxy.taps.topology.observed_topology import ObservedTopology

BACKLOG = 1024
"""Maximum of clients in the listen queue."""

BREATHER = 0.1
"""Seconds to wait when the system has no file descriptor left for another client."""


COUNT_INTERVAL = 1.0
"""Seconds between two flushes of the rules' hit counts."""

TOKEN_INTERVAL = 5.0
"""Seconds between two looks for expired tokens."""

TOKEN_EXPIRED = ConnectionForced("the proxy's token for the broker has expired, and its issuer gives no new one")
"""The error that ends sessions whose token has expired."""

LOGIN_EXPIRED = ConnectionForced("the token with which the client has logged in has expired")
"""The error that ends sessions whose client logged in by a token that has expired."""

SESSIONS_A_TURN = 20
"""Sessions handled in one turn of the loop when all sessions are."""

CLOSE_RESERVE = 1.0
"""Seconds of the drain's timeout that are reserved for sending a close to sessions that must be cut off."""

CLOSE_TURNS = 4
"""Turns of the loop reserved for the closes: if turns are long, more time is reserved, up to half of the timeout."""


class ProxyServer:
    """All sessions of one proxy, and the listeners that create them.

    `on_hold` is called for each newly held command, with its session and its number there. `lag` measures the loop's
    delay; `topology` records clients' declarations, if it is given. Sessions that the `brake` holds relay nothing.
    `pumps` relay the traffic that needs no inspection; they are running already.
    """

    def __init__(
        self,
        upstreams: Upstreams,
        limits: Limits,
        metrics: Metrics,
        tap: Tap | None = None,
        *,
        rules: RuleSet | None = None,
        mirrors: Mirrors | None = None,
        topology: ObservedTopology | None = None,
        pumps: Pumps | None = None,
    ) -> None:
        """`mirrors` takes the copies that rules make."""
        self._has_logins = False
        self._unsubscribes: list[Callable[[], None]] = []
        self._tokens: dict[CredentialSource, Credential] = {}
        self.sessions: dict[int, Session] = {}
        self._unparked: dict[int, Session] = {}
        self._announcing = 0
        self._loads: dict[int, ListenerLoad] = {}
        self._noting_hold, self._resuming = self._note_hold, self._resume  # one bound method for all sessions
        self.rules = rules or RuleSet(())
        self.on_hold: Callable[[Session, int], None] = lambda session, number: None
        self.lag = LoopLag()
        self.topology = topology
        self._pumps = pumps
        self._nursery: trio.Nursery | None = None
        self._accepting: trio.Nursery | None = None
        self._accepted: dict[OpenListener, trio.CancelScope] = {}
        self.upstreams = upstreams
        self.moves = ClientMoves(self.sessions, lambda: self.upstreams.groups)
        self._limits = limits
        self._metrics = metrics
        self.brake = TapBrake()
        self._tap = tap
        self._numbers = count(1)
        upstreams.shared_legs.next_number = self._numbers.__next__
        self._log = logger()
        self._is_empty = trio.Event()
        self._rule_log = RuleLog(trio.current_time)
        self._services = SessionServices(
            limits,
            metrics,
            mirrors=mirrors,
            memory=MemoryBudget(limits.memory, limits.session_memory),
            rule_log=self._rule_log,
            tap_budget=TapBudget(),
            brake=self.brake,
            topology=topology,
            pumps=pumps,
        )
        self._to_move: deque[Session] = deque()
        self._replaced = trio.Event()

    def apply_rules(self, rules: RuleSet) -> None:
        """Apply a new rule set: to new sessions and the first of the existing ones at once, to the others in turns.

        A session that is still waiting when rules are replaced again gets only the newest.
        """
        self.rules = rules
        self._to_move = deque(self.sessions.values())
        self._move_some()
        self._replaced.set()

    def follow(self, credentials: Iterable[CredentialSource]) -> None:
        """Send brokers the successors of these credentials, if they are tokens that the proxy has logged in with.

        What was kept of other credentials is dropped: their tokens have no more successors.
        """
        followed = list(credentials)
        self._tokens = {source: token for source, token in self._tokens.items() if source in followed}
        for unsubscribe in self._unsubscribes:
            unsubscribe()
        self._unsubscribes = [each.subscribe(partial(self._follow_one, each)) for each in followed]

    def _follow_one(self, source: CredentialSource, credential: Credential) -> None:
        if self._nursery is not None:
            self._nursery.start_soon(supervised, "tokens not renewed", self._renew_tokens, source, credential)

    async def _renew_tokens(self, source: CredentialSource, credential: Credential) -> None:
        """Send brokers a token: at once, and again for clients that logged in meanwhile with its predecessor."""
        self._tokens[source] = credential

        def renew(session: Session) -> None:
            if session.token_source is source and self._tokens.get(source) is credential:
                session.renew_token(credential)

        await self._for_each(renew)
        await trio.sleep(self._limits.handshake_timeout)
        await self._for_each(renew)

    async def _keep_tokens(self) -> None:
        """Look for sessions whose token has expired, every `TOKEN_INTERVAL`."""
        while True:
            await trio.sleep(TOKEN_INTERVAL)
            if self._has_logins:
                await self._for_each(partial(self._check_token, time.time()))

    def _check_token(self, now: float, session: Session) -> None:
        """End a session with 320 if its client's token has expired, or the proxy's own without a successor.

        RabbitMQ before 4.3 would keep the connection, and refuse all that the client does.
        """
        if now >= session.login_ends_at:
            session.drain(LOGIN_EXPIRED)
            return
        if session.token_source is None or not session.has_expired(now):
            return
        successor = self._tokens.get(session.token_source)
        if successor is not None and now < successor.expires_at:
            session.renew_token(successor)  # it could not be sent earlier
        else:
            session.drain(TOKEN_EXPIRED)

    def apply_tap(self, tap: Tap | None) -> None:
        """Show another tap what sessions relay, or none if it is `None`: new sessions at once, the others in turns."""
        self._tap = tap
        self._to_move = deque(self.sessions.values())
        self._move_some()
        self._replaced.set()

    def _move_some(self) -> None:
        """Apply rules and tap to `SESSIONS_A_TURN` of the sessions that still have earlier ones."""
        for _ in range(min(SESSIONS_A_TURN, len(self._to_move))):
            session = self._to_move.popleft()
            if session.number in self.sessions:
                with session.contained():
                    session.apply_rules(self.rules)
                    session.apply_tap(self._tap)

    async def _keep_moving(self) -> None:
        """Apply replaced rules, or another tap, to the remaining sessions in turns."""
        while True:
            while self._to_move:
                await trio.lowlevel.checkpoint()
                self._move_some()
            self._replaced = trio.Event()
            await self._replaced.wait()

    async def _for_each(self, do: Callable[[Session], None], by: float = math.inf) -> None:
        await for_each(self.sessions, do, SESSIONS_A_TURN, by)

    async def serve(self, listeners: Sequence[OpenListener], drain: trio.Event) -> None:
        """Accept clients until `drain` is set; then end every session cleanly, and return."""
        async with trio.open_nursery() as self._nursery:
            nursery = self._nursery
            watched = self._unparked, self._limits, self._silent
            nursery.start_soon(kept_up, "sessions not watched", watchdog.watch, *watched)
            nursery.start_soon(kept_up, "sessions not counted", self._keep_count)
            nursery.start_soon(kept_up, "clients not moved", self.moves.run)
            nursery.start_soon(kept_up, "rules not replaced", self._keep_moving)
            nursery.start_soon(kept_up, "tokens not watched", self._keep_tokens)
            self.upstreams.start = lambda function: nursery.start_soon(supervised, "pool failed", function)
            nursery.start_soon(kept_up, "pools not kept", self.upstreams.keep_pools)
            if self._pumps is not None:
                nursery.start_soon(kept_up, "pumps not served", self._pumps.run)
            try:
                async with trio.open_nursery() as self._accepting:
                    for each in listeners:
                        self.accept(each)
                    await drain.wait()
                    end = trio.current_time() + self._limits.drain_timeout
                    self._accepting.cancel_scope.cancel()
                self._accepting = None
                for each in list(self._accepted):
                    await self.stop_accepting(each)
                with contained("not drained"):
                    await self._drain(end)
                with contained("rules not reported"):
                    self._report_rules()
            finally:
                for session in list(self.sessions.values()):
                    if session.is_parked:  # gives it a task, which is then cancelled and closes it
                        session.recall()
            nursery.cancel_scope.cancel()

    def accept(self, opened: OpenListener) -> None:
        """Accept the clients of a listener, unless the proxy drains."""
        scope = self._accepted[opened] = trio.CancelScope()
        if self._accepting is not None:
            self._accepting.start_soon(self._accept, scope, opened, self._accepting)

    async def stop_accepting(self, opened: OpenListener) -> None:
        """Accept no more clients of a listener, and close it; its present clients stay."""
        self._accepted.pop(opened).cancel()
        with contained("cannot close a listener"):
            await opened.listener.aclose()

    async def _keep_count(self) -> None:
        """Flush the rules' hit counts and note the loop lag, every `COUNT_INTERVAL`."""
        while True:
            due = trio.current_time() + COUNT_INTERVAL
            await trio.sleep_until(due)
            self.lag.note(trio.current_time() - due)
            await for_each(self._unparked, lambda session: session.count_unseen(), SESSIONS_A_TURN)
            with contained("rules not reported"):
                self._report_rules()

    def _report_rules(self) -> None:
        self._rule_log.flush(self.rules.counts())

    async def _drain(self, end: float) -> None:
        """End all sessions by the time `end`: by a clean drain, else by connection.close at once, or by a reset."""
        timeout = self._limits.drain_timeout
        self._log.info("draining", sessions=len(self.sessions), timeout=timeout)
        reserve = min(max(CLOSE_RESERVE, CLOSE_TURNS * self.lag.last), timeout / 2)
        began, asking = trio.current_time(), reserve
        if self._pumps is not None:
            self._pumps.end()
        with trio.move_on_at(end - reserve) as patience:
            await self._for_each(lambda session: session.drain())
            # Ending all sessions takes about as long as asking them: seconds, if a thousand are saturated.
            asking = trio.current_time() - began
            reserve = min(max(reserve, asking), timeout / 2)
            patience.deadline = end - reserve
            await self._wait_until_empty()
        # Regardless of the time: a session left out could be parked with a pump after all tasks have ended.
        last = end - min(asking, reserve) / 2
        text = f"not drained within {timeout:g} s"

        def end_one(session: Session) -> None:
            if trio.current_time() < last:
                session.abort(text)
            else:
                session.cut(text)

        await self._for_each(end_one, last)
        with trio.move_on_at(last):
            await self._wait_until_empty()
        for session in list(self.sessions.values()):
            with session.contained():
                session.cut(text)

    async def _wait_until_empty(self) -> None:
        while self.sessions:
            self._is_empty = trio.Event()
            await self._is_empty.wait()

    async def _accept(self, scope: trio.CancelScope, opened: OpenListener, accepting: trio.Nursery) -> None:
        nursery = self._nursery
        assert nursery is not None
        with scope:
            while True:
                is_accepted = False
                with contained("cannot accept"):
                    is_accepted = await self._accept_one(opened, accepting, nursery)
                if not is_accepted:
                    self._metrics.refused.labels("resources").inc()
                    await trio.sleep(BREATHER)

    async def _accept_one(self, opened: OpenListener, accepting: trio.Nursery, nursery: trio.Nursery) -> bool:
        """Accept the next client, and serve it; return false if the system has no resources for it."""
        try:
            stream = await opened.listener.accept()
        except OSError as error:
            self._log.error("cannot accept", reason=error.strerror)
            return False
        if not opened.takes_time or self._is_full(opened):
            await self._begin(stream, opened, nursery)
        else:
            self._announcing += 1
            accepting.start_soon(supervised, "connection failed", self._prepare, stream, opened, nursery)
        return True

    def _is_full(self, opened: OpenListener) -> bool:
        """Whether the proxy or the listener has as many connections as it may."""
        return opened.load.is_full or len(self.sessions) + self._announcing >= self._limits.connections

    async def _prepare(self, stream: trio.SocketStream, opened: OpenListener, nursery: trio.Nursery) -> None:
        """Receive the PROXY header of a balancer's connection, await its client's turn, and serve it."""
        header = None
        try:
            with trio.fail_after(self._limits.tls_handshake_timeout):
                found = await self._header_of(stream, opened)
            if opened.load.handshakes is not None:
                await _turn(opened.load.handshakes, stream.socket, found)
            header = found
        except Departed:
            pass
        except QueueFull:
            self._metrics.refused.labels("handshake-queue").inc()
            self._log.warning("connection refused", reason=f"too many clients wait for {opened.config.address}")
        except trio.TooSlowError:
            self._refuse(stream, f"no PROXY header within {self._limits.tls_handshake_timeout:g} s")
        except BadProxyHeader as error:
            self._refuse(stream, str(error), is_probe=error.is_probe)
        except OSError as error:
            self._refuse(stream, f"{error.strerror} before a PROXY header", is_probe=True)
        finally:
            self._announcing -= 1
            if header is None:
                await trio.aclose_forcefully(stream)
        if header is not None:
            await self._begin(stream, opened, nursery, header)

    async def _header_of(self, stream: trio.SocketStream, opened: OpenListener) -> ProxyHeader:
        """Return the PROXY header, or an empty one if there need be none; raise `BadProxyHeader` for a refusal."""
        expected = opened.config.proxy_protocol
        if expected is None:
            return ProxyHeader()
        peer = stream.socket.getpeername()[0]
        if expected.believes(plain_address(peer)):
            found = await receive_header(stream.socket)
            if found is None and expected.required:
                raise BadProxyHeader("the connection does not begin with a PROXY header")
            return found or ProxyHeader()
        if expected.required:
            raise BadProxyHeader("the peer is not in the networks of proxy_protocol")
        return ProxyHeader()

    def _refuse(self, stream: trio.SocketStream, reason: str, *, is_probe: bool = False) -> None:
        """Count and log a connection that is closed for its PROXY header."""
        self._metrics.refused.labels("proxy-header").inc()
        log = self._log.debug if is_probe else self._log.warning
        with suppress(OSError):
            log("connection refused", reason=reason, address=join_address(*stream.socket.getpeername()[:2]))

    async def _begin(
        self,
        stream: trio.SocketStream,
        opened: OpenListener,
        nursery: trio.Nursery,
        header: ProxyHeader = ProxyHeader(),  # noqa: B008 - immutable
    ) -> None:
        """Serve a new client in `nursery`, or close its connection."""
        session = None
        try:
            if not self._is_full(opened):
                session = self._admit(stream, opened, header)
            else:
                reason = f"limits.connections is {self._limits.connections}"
                if opened.load.is_full:
                    reason = f"connections of the listener {opened.config.address} is {opened.load.most}"
                self._metrics.refused.labels("limit").inc()
                self._log.warning("connection refused", reason=reason)
        finally:
            if session is None:
                await trio.aclose_forcefully(stream)
        if session is not None:
            nursery.start_soon(supervised, "session failed", self._serve, session)

    def _admit(self, stream: trio.SocketStream, opened: OpenListener, header: ProxyHeader) -> Session | None:
        """Create and count a session for a client; return `None` if the client is gone already."""
        try:
            own = stream.socket.getsockname()
            remote, local = header.ends or (stream.socket.getpeername(), own)
        except OSError:
            return None
        name = f"{join_address(*remote[:2])}-{join_address(*local[:2])}"
        with ExitStack() as stack:
            sock = stack.enter_context(plain_socket(stream))
            if opened.tls is not None:
                try:
                    sock = stack.enter_context(secured(sock, opened.tls, server_side=True))
                except OSError:
                    return None
            number = next(self._numbers)
            client = Client(
                session=number,
                address=remote[0],
                port=remote[1],
                listener=join_address(*own[:2]),
                upstream=self.upstreams.address,
                tls_subject=header.tls_subject,
                sni=header.authority,
            )
            transport = SocketTransport(sock)
            session = Session(
                number,
                transport,
                name,
                self.upstreams.reach_for((remote[:2], local[:2]), opened.config.address, transport.has_hung_up),
                self._services,
                DIALECTS,
                self._tap,
                rules=self.rules,
                unread=opened.config.unread,
                login=opened.login,
                find_pools=partial(self.upstreams.pools_for, opened.config.address)
                if self.upstreams.have_pools
                else None,
                client=client,
                on_hold=self._noting_hold,
                resume=self._resuming,
            )
            stack.pop_all()  # the session closes the socket
        self._metrics.accepted.inc()
        self._metrics.connections.inc()
        self.sessions[session.number] = self._unparked[session.number] = session
        opened.load.connections += 1
        self._loads[session.number] = opened.load
        self._has_logins = self._has_logins or opened.login is not None
        return session

    def _note_hold(self, session: Session, number: int) -> None:
        self.on_hold(session, number)

    async def _serve(self, session: Session) -> None:
        """Run a session until it is over or parked; a parked one is kept in `sessions` only."""
        try:
            with session.contained():
                await session.run()
        finally:
            if session.is_over:
                self._forget(session)
            elif session.is_parked:
                self._unparked.pop(session.number, None)

    def _forget(self, session: Session) -> None:
        """Remove a session that is over."""
        del self.sessions[session.number]
        self._loads.pop(session.number).connections -= 1
        if session.member is not None:
            session.member.note_disconnected()
        self._unparked.pop(session.number, None)
        self._metrics.connections.dec()
        if not self.sessions:
            self._is_empty.set()

    def _resume(self, session: Session) -> None:
        """Serve a session that has left its parking, unless it is over."""
        if session.is_over:
            self._forget(session)
            return
        assert self._nursery is not None
        self._unparked[session.number] = session
        self._nursery.start_soon(supervised, "session failed", self._serve, session)

    def _silent(self, now: float) -> list[Session]:
        """Return the parked sessions one of whose peers has been silent for too long."""
        found = self._pumps.silent(now) if self._pumps is not None else []
        return [session for session in found if isinstance(session, Session)]


async def _turn(handshakes: AdmissionQueue, sock: trio.socket.SocketType, header: ProxyHeader) -> None:
    """Wait for a client's turn to begin its handshake."""
    if not handshakes.admits(trio.current_time()):
        address = (header.ends[0] if header.ends else sock.getpeername())[0]
        await await_turn(handshakes, client_network(address), is_gone=lambda: has_hung_up(sock))


async def listen(address: str) -> list[trio.SocketListener]:
    """Return listeners on HOST:PORT, one for each address of the host. Raises `OSError` if it cannot be bound."""
    host, port = split_address(address)
    return await trio.open_tcp_listeners(port, host=host or None, backlog=BACKLOG)
