"""The upstream's place in a session whose client logs in at the proxy, until a broker has opened the virtual host."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import trio

from amqproxy.amqp091.errors import AccessRefused, CommandInvalid, NotAllowed, ProtocolError
from amqproxy.process.exception_frames import release_frames
from amqproxy.proxy.logins.attempt import Identity, LoginAttempt, LoginDenied
from amqproxy.proxy.logins.credential import Credential, CredentialFailed, CredentialSource
from amqproxy.proxy.logins.handshake import (
    BrokerRefused,
    ClientStep,
    ClosedByBroker,
    LoginHandshake,
    Response,
    VhostDown,
    VhostRequest,
)
from amqproxy.proxy.logins.login_check import LoginCheck
from amqproxy.proxy.upstream import Unreachable
from amqproxy.proxy.upstreams.member import Member
from amqproxy.proxy.upstreams.reach import BrokerLogin, MemberLogin
from amqproxy.rules.context import Client
from amqproxy.rules.rewriting.secret import Secret
from amqproxy.sockets.tls_socket import TlsSocket
from amqproxy.sockets.transport import Address, Transport, TransportBroken

_REFUSAL = "Login was refused using authentication mechanism {}. For details see the broker logfile."
"""RabbitMQ's text, by which clients recognise a wrong password."""


_FAILURES = (Unreachable, BrokerRefused, CredentialFailed)
"""Exceptions for a client that cannot be connected to a broker."""

Dial = Callable[[Member], Awaitable[tuple[Transport, bytes]]]
"""Connects a client to a member by itself; returns the connection with the broker's answer to connection.open."""

CredentialOf = Callable[[CredentialSource | None], Awaitable[Credential]]
"""Returns the credential of a client at a broker with this source of credentials."""

Share = Callable[[Client, CredentialOf, Dial], Awaitable[tuple[Transport, bytes] | None]]
"""Returns a client's place on a shared connection, and the answer to its connection.open; `None` if there is none."""


_WITHOUT_PASSWORD = {
    "EXTERNAL": "a certificate cannot be passed on",
    "ANONYMOUS": "the broker would log in an anonymous client as another user",
}
"""Mechanisms without a password, and why the client's response is not passed on."""


class LoginTransport:
    """A `Transport` on which the proxy itself is the broker, until it has connected the client to one.

    Relays, rules and taps see an ordinary handshake: connection.start comes from here, and so does connection.tune,
    once `check` has accepted the client. When the client opens its virtual host, `reach` connects it to a broker (or to
    this member), where the proxy logs in; from the broker's answer on, all bytes pass to and from `upstream`.

    `known` returns what is known of the client so far. `identify` is called with the name of a client whose login was
    accepted, and `beat` to send the client heartbeats until it is cancelled. Once the proxy has logged in, `accept` is
    called with the client's login and whether that was with the client's own secret, and `follow` with the token and
    its source if it was with one. `log` is called with a level and a text. `certificate_name` is the user in the
    client's certificate, "" without one; `is_secure` is whether the client's connection is encrypted. `share` gives the
    client a place on a connection that it shares with others, if its broker has one.
    """

    def __init__(
        self,
        handshake: LoginHandshake,
        check: LoginCheck,
        reach: Callable[[Client, BrokerLogin, Member | None], Awaitable[Transport]],
        *,
        known: Callable[[], Client],
        identify: Callable[[str], None],
        beat: Callable[[], Awaitable[None]],
        accept: Callable[[LoginAttempt, Identity, bool], None],
        follow: Callable[[CredentialSource, Credential], None],
        log: Callable[[str, str], None],
        certificate_name: str,
        is_secure: bool,
        share: Share | None = None,
    ) -> None:
        self.upstream: Transport | None = None
        self._own_received = 0
        self._handshake = handshake
        self._check = check
        self._reach = reach
        self._known = known
        self._identify = identify
        self._beat = beat
        self._accept = accept
        self._follow = follow
        self._log = log
        self._certificate_name = certificate_name
        self._is_secure = is_secure
        self._share = share
        self._password = Secret("")
        self._is_own_pooled = False
        self._mechanism = ""
        self._attempt: LoginAttempt | None = None
        self._identity: Identity | None = None
        self._steps: deque[ClientStep] = deque()
        self._has_left = self._is_opening = False
        self._answer = b""
        self._changed = trio.Event()
        self._settled = trio.Event()
        self._working = trio.CancelScope()
        self._next = self._greet

    @property
    def settled(self) -> Transport | None:
        """The transport that takes over from this one."""
        return self.upstream

    @property
    def sent(self) -> Any:
        """The start-ok that the broker was sent, in its protocol's type."""
        return self._handshake.sent

    # --- what the session receives from the broker

    async def receive(self) -> bytes:
        if self.upstream is not None:
            return await self._next()
        with trio.CancelScope() as self._working:
            data = await self._next()
            self._own_received += len(data)
            return data
        return self._left(None)

    async def _greet(self) -> bytes:
        self._next = self._answer_response
        offered = self._offered
        if not offered:
            self._log("warning", "no login mechanism is left for clients without TLS")
            raise TransportBroken("refused the connection: it needs TLS")
        return self._handshake.start(offered)

    @property
    def _offered(self) -> list[str]:
        may_send_password = self._is_secure or not self._check.passwords_need_tls
        may_choose = {"EXTERNAL": bool(self._certificate_name)}
        if "ANONYMOUS" in self._check.mechanisms:
            may_choose["ANONYMOUS"] = self._check.admits_anonymous(self._known().address)
        return [each for each in self._check.mechanisms if may_choose.get(each, may_send_password)]

    async def _answer_response(self) -> bytes:
        step = await self._step()
        if not isinstance(step, Response):
            return self._left(step)
        if step.mechanism not in self._offered:
            return self._refused(CommandInvalid(f"unknown authentication mechanism '{step.mechanism}'"))
        self._mechanism = step.mechanism
        user = self._certificate_name if step.mechanism == "EXTERNAL" else step.user
        attempt = self._attempt = LoginAttempt(step.mechanism, user or "", Secret(step.password or ""), self._known())
        try:
            if step.password is None and step.mechanism not in _WITHOUT_PASSWORD:
                raise LoginDenied(f"no user and password in the response to {step.mechanism}")
            self._identity = await self._check.check(attempt)
        except LoginDenied as error:
            release_frames(error)  # wrong passwords may come faster than garbage is collected
            return self._refused(AccessRefused(_REFUSAL.format(step.mechanism)))
        except Unreachable as error:
            raise TransportBroken(str(error)) from None
        self._password = attempt.password
        self._identify(self._identity.user)
        self._next = self._open_vhost
        return self._handshake.tune()

    async def _open_vhost(self) -> bytes:
        step = await self._step()
        if not isinstance(step, VhostRequest):
            return self._left(step)
        identity, client = self._identity, self._known()
        assert identity is not None
        try:
            if not await self._check.check_vhost(identity, step.vhost, client.address):
                return self._refused(NotAllowed(f"access to vhost '{step.vhost}' refused for user '{identity.user}'"))
            upstream = await self._reached(client)
            self.upstream, self._next = upstream, upstream.receive
            if step.behind:
                await upstream.send(step.behind)
        except (ClosedByBroker, NotAllowed) as error:
            release_frames(error)
            return self._refused(error)
        except Unreachable as error:
            raise TransportBroken(str(error)) from None
        except (BrokerRefused, CredentialFailed) as error:
            self._log("error", f"the proxy could not log in for the client: {error}")
            return self._refused(AccessRefused("the broker refused the proxy's login"))
        finally:
            self._settled.set()
        return self._answer

    async def _reached(self, client: Client) -> Transport:
        """Return the connection to a broker; the client is sent heartbeats meanwhile."""
        failure: Exception | None = None
        upstream: Transport | None = None
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._beat)
                try:
                    upstream = await self._shared(client) or await self._reach(client, self._login, None)
                except (*_FAILURES, ClosedByBroker, NotAllowed, TransportBroken) as error:
                    failure = error
                nursery.cancel_scope.cancel()
        except BaseException:  # the client has left as it was connected
            if upstream is not None:
                with trio.CancelScope(shield=True):
                    await upstream.reset()
            raise
        if failure is not None:
            raise failure
        assert upstream is not None
        return upstream

    async def _shared(self, client: Client) -> Transport | None:
        """Return the client's place on a connection that it shares, if its broker has one."""
        if self._share is None:
            return None
        found = await self._share(client, self._pooled_credential, self._dial)
        if found is None:
            return None
        upstream, self._answer = found
        self._note_accepted(is_passed_on=self._is_own_pooled)
        return upstream

    async def _pooled_credential(self, source: CredentialSource | None) -> Credential:
        """Return the credential with which connections are opened that the client may share."""
        assert self._identity is not None
        found = await self._credential(source)
        self._is_own_pooled = found is None
        return found or Credential(self._identity.user, self._password)

    async def _dial(self, member: Member) -> tuple[Transport, bytes]:
        """Connect the client to a broker by itself, after it has shared a connection."""
        try:
            return await self._reach(self._known(), self._login, member), self._answer
        except _FAILURES as error:
            raise TransportBroken(str(error)) from None

    def _refused(self, error: ProtocolError | ClosedByBroker) -> bytes:
        self._next = self._await_departure
        return self._handshake.close(error.code, error.reply_text)

    def _left(self, step: ClientStep | None) -> bytes:
        """Return the answer to a client that leaves, b"" if there is none."""
        self._next = _end
        return getattr(step, "answer", b"")

    async def _await_departure(self) -> bytes:
        return self._left(await self._step())

    async def _step(self) -> ClientStep | None:
        """Return the client's next step; `None` if it has closed its half."""
        while not self._steps and not self._has_left:
            if self._changed.is_set():
                self._changed = trio.Event()
            await self._changed.wait()
        return self._steps.popleft() if self._steps else None

    # --- the proxy's own login

    def _note_accepted(self, *, is_passed_on: bool) -> None:
        """Report the client's login, once, unless it was the broker that checked it."""
        attempt, self._attempt = self._attempt, None
        if attempt is not None and self._identity is not None and self._identity.source != "broker":
            self._accept(attempt, self._identity, is_passed_on)

    async def _login(self, source: CredentialSource | None) -> MemberLogin:
        """Return the login to a broker for this client."""
        is_own = self._identity is not None and self._identity.source == "broker"  # which has accepted it as it was
        return partial(self._log_in, source, None if is_own else await self._credential(source))

    async def _log_in(
        self, source: CredentialSource | None, credential: Credential | None, transport: Transport, answer: bytes
    ) -> bytes:
        """Log in to a broker that has answered the protocol header; return its answer to connection.open."""
        handshake = self._handshake.log_in(credential)
        next(handshake)
        received = answer
        try:
            while True:
                output = handshake.send(received)
                if output:
                    await transport.send(output)
                received = await transport.receive()
                if not received:
                    raise BrokerRefused("it has closed the connection during the login")
        except StopIteration as opened:
            self._answer = opened.value
        except VhostDown as error:
            raise Unreachable("vhost down", str(error)) from None
        except self._handshake.ERROR as error:
            raise Unreachable("no answer", f"the broker does not keep to the protocol: {error}") from None
        self._note_accepted(is_passed_on=credential is None)
        if credential is not None and credential.is_token and source is not None:
            self._follow(source, credential)
        return self._answer

    async def _credential(self, source: CredentialSource | None) -> Credential | None:
        """Return the credential for this client; `None` for the client's own."""
        identity = self._identity
        assert identity is not None
        if identity.credential is not None:
            return identity.credential
        if source is not None:
            return await source.current()
        if self._mechanism in _WITHOUT_PASSWORD:
            raise CredentialFailed(f"the upstream has no `login`, and {_WITHOUT_PASSWORD[self._mechanism]}")
        return None

    # --- what the session sends to the broker

    async def send(self, data: bytes | memoryview) -> None:
        if self._is_opening and data:
            await self._settled.wait()
        if self.upstream is not None:
            await self.upstream.send(data)
            return
        try:
            steps = self._handshake.receive(bytes(data))
            # before the other task has seen it: what follows is for the broker
            self._is_opening = self._is_opening or any(isinstance(each, VhostRequest) for each in steps)
            self._steps += steps
        except self._handshake.ERROR as error:  # the session has refused it before, unless a rule has made it
            raise TransportBroken(f"refused a frame of the login: {error}") from None
        self._changed.set()

    def send_now(self, data: bytes | memoryview) -> int:
        return 0 if self.upstream is None else self.upstream.send_now(data)

    def send_pieces_now(self, pieces: Sequence[bytes | memoryview]) -> int:
        return 0 if self.upstream is None else self.upstream.send_pieces_now(pieces)

    async def send_some(self, pieces: Sequence[bytes | memoryview]) -> int:
        if self.upstream is not None:
            return await self.upstream.send_some(pieces)
        await self.send(pieces[0])
        return len(pieces[0])

    async def send_eof(self) -> None:
        self._has_left = True
        if self.upstream is not None:
            await self.upstream.send_eof()
        elif self._changed.is_set():
            self._working.cancel()  # nobody waits for what is being done
        self._changed.set()

    # --- the rest

    @property
    def received(self) -> int:
        return self._own_received + (0 if self.upstream is None else self.upstream.received)

    @property
    def tls(self) -> TlsSocket | None:
        return None if self.upstream is None else self.upstream.tls

    @property
    def is_listening(self) -> bool:
        return self.upstream is not None and self.upstream.is_listening

    @property
    def is_sending(self) -> bool:
        return self.upstream is not None and self.upstream.is_sending

    @property
    def progress(self) -> int:
        return 0 if self.upstream is None else self.upstream.progress

    def has_hung_up(self) -> bool:
        return self.upstream is not None and self.upstream.has_hung_up()

    def ends(self) -> tuple[Address, Address] | None:
        return None if self.upstream is None else self.upstream.ends()

    async def aclose(self) -> None:
        self._let_go()
        if self.upstream is not None:
            await self.upstream.aclose()

    async def reset(self) -> None:
        self._let_go()
        if self.upstream is not None:
            await self.upstream.reset()

    def _let_go(self) -> None:
        """Drop the references to the session: wrong passwords may come faster than cyclic garbage is collected."""
        self._next = _end
        for name in ("_reach", "_known", "_identify", "_beat", "_accept", "_follow", "_log", "_share"):
            self.__dict__.pop(name, None)


async def _end() -> bytes:
    """Receive nothing more."""
    return b""
