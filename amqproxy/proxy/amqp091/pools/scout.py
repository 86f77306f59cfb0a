"""The connection of a pool on which methods are tried that may fail hard, one at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from amqproxy.amqp091.frame import METHOD, Frame, encode_method
from amqproxy.amqp091.methods import ChannelClose, ChannelFlow, ChannelFlowOk, Method
from amqproxy.proxy.amqp091.pools.lane import Lane
from amqproxy.proxy.amqp091.pools.request_proof import Answer, RequestProofs, Verdict
from amqproxy.proxy.amqp091.pools.shared_upstream import SharedUpstream
from amqproxy.proxy.logins.credential import CredentialFailed
from amqproxy.proxy.logins.handshake import BrokerRefused, ClosedByBroker
from amqproxy.proxy.upstream import Unreachable
from amqproxy.sockets.transport import TransportBroken


class Scout:
    """Tries methods on a connection that `open` opens when it is needed; `proofs` remembers the verdicts.

    An answer takes at most `timeout` seconds.
    """

    def __init__(self, open: Callable[[], Awaitable[SharedUpstream]], proofs: RequestProofs, timeout: float) -> None:
        self._open = open
        self._proofs = proofs
        self._timeout = timeout
        self._turn = trio.Lock()
        self._failures = 0
        self._failure = ""
        """The last failure to open the connection, which is that of all clients that waited for it."""
        self._trials: dict[bytes, _Trial] = {}
        self.used_at = trio.current_time()
        self.upstream: SharedUpstream | None = None
        self._channel: _TrialChannel | None = None

    def verdict(self, request: bytes) -> Verdict:
        return self._proofs.verdict(request)

    async def await_verdict(self, request: bytes) -> Verdict:
        """Wait while the same method is tried for another client; return the verdict.

        Raises `TransportBroken` if the broker could not be reached for that, or has not answered it.
        """
        while (trial := self._trials.get(request)) is not None and self.verdict(request) is Verdict.UNKNOWN:
            await trial.over.wait()
            if trial.failure and self.verdict(request) is Verdict.UNKNOWN:
                raise TransportBroken(trial.failure)
        return self.verdict(request)

    def note_proof(self, request: bytes) -> None:
        """Note that the broker has answered a method on a shared connection."""
        self._proofs.note(request, Answer())

    async def prove(self, method: Method) -> Answer | None:
        """Send a method; return the broker's answer, `None` if others have taken too long before.

        Raises `TransportBroken` if the broker does not answer. That is the failure of this method alone, and of all who
        wait for it; but all fail for whom the connection could not be opened.
        """
        request = method.encode()
        trial, failures = self._trials.setdefault(request, _Trial()), self._failures
        try:
            with trio.move_on_after(self._timeout) as patience:
                await self._turn.acquire()
            if patience.cancelled_caught:
                return None
            try:
                if self._failures > failures:
                    trial.failure = self._failure
                if trial.failure:
                    raise TransportBroken(trial.failure)
                answer = await self._answer(method, trial)
            finally:
                self._turn.release()
        finally:
            if self._trials.get(request) is trial:
                del self._trials[request]
            trial.over.set()
        return answer

    async def _answer(self, method: Method, trial: _Trial) -> Answer:
        self.used_at = trio.current_time()
        upstream = await self._opened(trial)
        with trio.move_on_after(self._timeout):
            channel = await self._trial_channel(upstream)
            # a client that leaves must not leave its answer to the next one
            with trio.move_on_after(self._timeout, shield=True):
                answer = await self._try(channel, method)
                self._proofs.note(method.encode(), answer)
                return answer
        self._give_up()
        trial.failure = f"the broker has not answered {method.name} within {self._timeout:g} s"
        raise TransportBroken(trial.failure)

    async def _opened(self, trial: _Trial) -> SharedUpstream:
        """Return the connection, which may have to be opened; raise `TransportBroken` if that fails."""
        if self.upstream is not None and not self.upstream.is_over:
            return self.upstream
        failure = f"the broker has not accepted a connection within {self._timeout:g} s"
        with trio.move_on_after(self._timeout):
            try:
                self.upstream, self._channel = await self._open(), None
            except (Unreachable, ClosedByBroker, BrokerRefused, CredentialFailed) as error:
                failure = str(error)
            else:
                return self.upstream
        self._failures, self._failure = self._failures + 1, failure
        trial.failure = failure
        raise TransportBroken(failure)

    async def _try(self, channel: _TrialChannel, method: Method) -> Answer:
        upstream = self.upstream
        assert upstream is not None
        requests = [method, ChannelFlow(True)] if getattr(method, "no_wait", False) else [method]
        for each in requests:
            upstream.shared.put(channel.number, encode_method(channel.number, each), is_method=True)
        upstream.flush()
        while channel.answer is None:
            if upstream.is_over:
                return self._ended(upstream, method)
            channel.changed = trio.Event()
            await channel.changed.wait()
        answer, channel.answer = channel.answer, None
        if answer.channel_close is not None:
            self._channel = None
        return answer

    @property
    def is_busy(self) -> bool:
        return self._turn.locked()

    def note_end(self) -> None:
        """Note that the connection has ended."""
        if self._channel is not None:
            self._channel.changed.set()

    def _ended(self, upstream: SharedUpstream, method: Method) -> Answer:
        """Return the answer of a broker that has closed the connection; raise `TransportBroken` if it was lost."""
        self._give_up()
        close = upstream.shared.closed
        if close is None or (close.failing_class_id, close.failing_method_id) != (method.class_id, method.method_id):
            raise TransportBroken("the broker has closed the connection on which methods are tried")
        return Answer(connection_close=close)

    def _give_up(self) -> None:
        if self.upstream is not None:
            self.upstream.abort()
        self.upstream = self._channel = None

    async def _trial_channel(self, upstream: SharedUpstream) -> _TrialChannel:
        if self._channel is None:
            channel = _TrialChannel()
            lane = Lane()
            while (number := upstream.shared.take_channel(channel, lane)) is None:
                upstream.flush()
                await upstream.reserve_filled.wait()
                if upstream.is_over:
                    raise TransportBroken("the broker has closed the connection on which methods are tried")
            channel.number = number
            self._channel = channel
        return self._channel


class _Trial:
    """A method that is being tried; `failure` is why it has no answer, once it is `over`."""

    def __init__(self) -> None:
        self.over = trio.Event()
        self.failure = ""


class _TrialChannel:
    """The channel on which methods are tried."""

    def __init__(self) -> None:
        self.number = 0
        self.answer: Answer | None = None
        self.changed = trio.Event()

    def take(self, frame: Frame) -> None:
        if frame.kind == METHOD:
            method: Method = frame.method
            self._settle(Answer(None if isinstance(method, ChannelFlowOk) else method))

    def take_close(self, close: ChannelClose) -> None:
        self._settle(Answer(channel_close=close))

    def take_close_ok(self) -> None:
        """Ignore it: the scout never closes its channel."""

    def _settle(self, answer: Answer) -> None:
        self.answer = answer
        self.changed.set()
