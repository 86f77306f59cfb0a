"""The proxy on a loopback port, in a separate thread, with the assertions of tests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from itertools import count as counted
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import trio
from trio.testing import wait_all_tasks_blocked

from amqproxy.amqp091.transitions import CLIENT
from amqproxy.configuration.config import ConfigError, Limits, RecordConfig
from amqproxy.configuration.upstream_config import UpstreamConfig
from amqproxy.configuration.values import join_address
from amqproxy.control.hub import Hub
from amqproxy.process.supervision import kept_up, supervised
from amqproxy.process.trio_thread import TrioThread
from amqproxy.proxy.listener import ProxyServer, listen
from amqproxy.proxy.mirroring.mirrors import Mirrors
from amqproxy.proxy.open_listener import OpenListener
from amqproxy.proxy.upstream import Dialer
from amqproxy.proxy.upstreams.upstreams import Upstreams
from amqproxy.recording.recorder import Recorder
from amqproxy.rules.actions import AnyRule
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.taps.findings.finding import Finding, Severity
from amqproxy.taps.metrics import Metrics
from amqproxy.testing.active_rules import ActiveRules, fault_rule, rules_of
from amqproxy.testing.in_memory_recorder import InMemoryRecorder, Recording
from amqproxy.testing.messages import Messages, criteria
from amqproxy.testing.trace_text import finding_lines, last_lines, message_lines

Answer = TypeVar("Answer")

HOST = "127.0.0.1"

PAUSE = 0.01
"""Seconds between two checks of the records."""

CUSHION = 0.01
"""Idle time in seconds after which the proxy has read everything sent to it before."""

SETTLING_TIME = 0.2
"""Maximum time that an assertion waits for that, in seconds."""

OPEN_TIME = 1.0
"""Time that an assertion waits for open messages, in seconds."""

_CONFIRMED = ("confirmed", "committed")
_ACKED = ("acked", "auto-acked", "browsed")


class LocalProxy:
    """A proxy while its `with` block runs, on `host` and `port`, in front of the broker at `upstream` (HOST:PORT).

    It records the traffic: `messages`, with their outcomes, and `findings`; they stay available after its end. With a
    directory to `record` in, the traffic is also written to a pcapng file there.
    """

    def __init__(self, upstream: str, record: Path | None = None) -> None:
        self.upstream = upstream
        self._record = record
        self.host = HOST
        self.port = 0
        self._rules = ActiveRules()
        self._numbers = counted(1)
        self._final: Recording | None = None
        self._thread = TrioThread(self._served, "amqproxy proxy")

    def __enter__(self) -> LocalProxy:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with suppress(trio.RunFinishedError):
            self._final = self._recording()
        self._thread.stop()

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return join_address(self.host, self.port)

    @property
    def url(self) -> str:
        """URL for clients, as the user guest."""
        return f"amqp://guest:guest@{self.address}/%2F"

    # --- records

    @property
    def messages(self) -> Messages:
        """Messages, requests and events so far; the outcome of open ones is "pending"."""
        return self._recording().messages

    @property
    def findings(self) -> list[Finding]:
        """Findings so far: likely mistakes and problems."""
        return self._recording().findings

    def clear(self) -> None:
        """Drop the records, except open messages."""
        self._thread.call(lambda: self._recorder.clear())

    def last_lines(self, streams: Collection[int] | None = None) -> str:
        """Return the latest messages and frames of the connections with these numbers, or of all, for people."""
        recording = self._recording()
        return last_lines(recording.messages, recording.frames, streams)

    def _settle(self) -> None:
        """Wait until the proxy has read its pending input, if it becomes idle soon."""

        async def settle() -> None:
            with trio.move_on_after(SETTLING_TIME):
                await wait_all_tasks_blocked(CUSHION)

        if self._final is None:
            self._thread.run(settle)

    def _recording(self) -> Recording:
        return self._final or self._thread.call(lambda: self._recorder.recording())

    def wait_for(self, expression: str = "", count: int = 1, timeout: float = 5.0, **fields: Any) -> Messages:
        """Wait until `messages.where` finds `count` messages, and return them; else raise `AssertionError`.

        Not for code in an event loop, which it would block: use `wait_for_async` there.
        """
        __tracebackhide__ = True
        if _is_in_event_loop():
            raise RuntimeError("wait_for would stop the event loop that it is called in: await wait_for_async instead")
        end = time.monotonic() + timeout
        while len(found := self.messages.where(expression, **fields)) < count:
            if time.monotonic() >= end:
                raise self._not_seen(found, expression, count, timeout, fields)
            time.sleep(PAUSE)
        return found

    async def wait_for_async(
        self, expression: str = "", count: int = 1, timeout: float = 5.0, **fields: Any
    ) -> Messages:
        """Like `wait_for`, in asyncio or trio, where other tasks continue."""
        __tracebackhide__ = True
        sleep = trio.sleep if trio.lowlevel.in_trio_run() else asyncio.sleep
        end = time.monotonic() + timeout
        while len(found := self.messages.where(expression, **fields)) < count:
            if time.monotonic() >= end:
                raise self._not_seen(found, expression, count, timeout, fields)
            await sleep(PAUSE)
        return found

    def _not_seen(
        self, found: Messages, expression: str, count: int, timeout: float, fields: Mapping[str, Any]
    ) -> AssertionError:
        wanted = criteria(expression, fields)
        return self._failure(f"{len(found)} of {count} seen within {timeout:g} s: {wanted}", message_lines(found))

    # --- assertions

    def assert_all_confirmed(self, expression: str = "", *, timeout: float = OPEN_TIME) -> None:
        """Assert that each publish for which `expression` holds was confirmed by the broker, or committed.

        Open publishes have `timeout` seconds for it.
        """
        __tracebackhide__ = True
        self._assert_all("publish", _CONFIRMED, "confirmed", expression, timeout)

    def assert_all_acked(self, expression: str = "", *, timeout: float = OPEN_TIME) -> None:
        """Assert that each delivery for which `expression` holds was acknowledged, auto-acked or browsed.

        Open deliveries have `timeout` seconds for it.
        """
        __tracebackhide__ = True
        self._assert_all("deliver", _ACKED, "acked", expression, timeout)

    def assert_no_findings(self, severity: str = "warning", *, ignore: Collection[str] = ()) -> None:
        """Assert that there is no finding of at least this severity ("info", "warning", "error"), except kinds to
        `ignore`.
        """
        __tracebackhide__ = True
        least = Severity(severity).rank
        self._settle()
        recording = self._recording()
        self._check_complete(recording)
        found = [each for each in recording.findings if each.severity.rank >= least and each.kind not in ignore]
        if found:
            streams = {each.stream for each in found}
            raise self._failure(f"{_number(len(found), 'finding')}", finding_lines(found), streams)

    def _assert_all(self, type: str, wanted: Collection[str], outcome: str, expression: str, timeout: float) -> None:
        __tracebackhide__ = True
        self._settle()
        end = time.monotonic() + timeout
        while True:
            recording = self._recording()
            self._check_complete(recording)
            messages = _of_type(recording.messages, type).where(expression)
            others = [each for each in messages if each.outcome not in wanted]
            if not others:
                return
            if any(each.outcome != "pending" for each in others) or time.monotonic() >= end:
                break
            time.sleep(PAUSE)
        what = "publishes" if type == "publish" else "deliveries"
        title = f"{len(others)} of {len(messages)} {what} not {outcome}"
        raise self._failure(title, message_lines(others), {each.stream for each in others})

    def _check_complete(self, recording: Recording) -> None:
        """Raise `AssertionError` if older records were dropped, since then nothing can be said of all messages."""
        __tracebackhide__ = True
        if recording.dropped:
            text = f"{_number(recording.dropped, 'older record')} not kept: call clear() between the parts of a test"
            raise AssertionError(text)

    def _failure(self, title: str, lines: str, streams: Collection[int] | None = None) -> AssertionError:
        around = self.last_lines(streams) or "no connection has come to the proxy"
        return AssertionError("\n".join([part for part in (title, lines, around) if part]))

    # --- what goes wrong

    def rules(self, *rules: str | Mapping[str, Any]) -> AbstractContextManager[None]:
        """Apply more rules within the block: each is a mapping, or a text with `[[rules]]` as in a TOML config file.

        They apply to open connections too. Raise `ConfigError`, or `ValueError`, if they are invalid.
        """
        __tracebackhide__ = True
        try:
            added = tuple(rule for each in rules for rule in rules_of(each))
        except ConfigError as error:
            raise error.with_traceback(None) from None  # the frames of the parser are of no interest in a test's report
        return self._applied(added)

    @contextmanager
    def _applied(self, added: tuple[AnyRule, ...]) -> Iterator[None]:
        self._thread.call(lambda: self._apply(self._rules.add(added)))
        try:
            yield
        finally:
            self._thread.call(lambda: self._apply(self._rules.remove(added)))

    def fault(self, kind: str, **settings: Any) -> AbstractContextManager[None]:
        """Inject a fault within the block: `kind` and `settings` are those of docs/rules/fault.md.

        with proxy.fault("latency", delay=0.2, to="client"):
        with proxy.fault("nack", match={"exchange": "orders"}, nth=3):
        """
        __tracebackhide__ = True
        return self.rules(fault_rule(kind, next(self._numbers), settings))

    def cut(self) -> int:
        """Reset all client connections, as in a network failure; return their number."""

        def lose() -> int:
            sessions = list(self._server.sessions.values())
            for session in sessions:
                session.disconnect(CLIENT, "cut by a test")
            return len(sessions)

        return self._thread.call(lose)

    def _apply(self, rules: tuple[AnyRule, ...]) -> None:
        self._server.apply_rules(self._server.rules.replaced(rules))

    # --- the proxy's thread

    @property
    def _server(self) -> ProxyServer:
        return self._thread.value[0]

    @property
    def _recorder(self) -> InMemoryRecorder:
        return self._thread.value[1]

    @asynccontextmanager
    async def _served(self) -> AsyncIterator[tuple[ProxyServer, InMemoryRecorder]]:
        limits, metrics = Limits(), Metrics()
        dial = Dialer(UpstreamConfig(address=self.upstream), limits.connect_timeout)
        mirrors = Mirrors({None: dial}, {}, limits.mirror_backlog, limits.mirror_memory, lambda reason, copies: None)
        upstreams = Upstreams.of(dial, metrics, self.upstream)
        server = ProxyServer(upstreams, limits, metrics, rules=RuleSet(()), mirrors=mirrors)
        recorder = InMemoryRecorder(metrics)
        hub = Hub(None, server.apply_tap)
        for tap in recorder.taps:
            hub.add(tap)
        async with AsyncExitStack() as stack:
            files = Recorder(limits, metrics, hub.add, hub.remove, server.brake)
            if self._record is not None:
                await files.start(RecordConfig(directory=str(self._record), compress=False))
                stack.push_async_callback(files.close)
            listeners = [await stack.enter_async_context(each) for each in await listen(f"{self.host}:0")]
            self.port = listeners[0].socket.getsockname()[1]
            async with trio.open_nursery() as nursery:
                await nursery.start(mirrors.run)
                nursery.start_soon(kept_up, "recording not watched", files.run)
                accepted = [OpenListener(each) for each in listeners]
                nursery.start_soon(supervised, "proxy failed", server.serve, accepted, trio.Event())
                yield server, recorder
                nursery.cancel_scope.cancel()


def _is_in_event_loop() -> bool:
    if trio.lowlevel.in_trio_run():
        return True
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _of_type(messages: Messages, type: str) -> Messages:
    """Return the publishes, or the deliveries, including those of basic.get."""
    types = ("deliver", "get") if type == "deliver" else (type,)
    return messages.only(lambda each: each.type in types)


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
