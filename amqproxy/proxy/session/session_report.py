"""Reports of one session: to the metrics, the log, and a tap."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import trio

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import AccessRefused, InternalError
from amqproxy.amqp091.methods import (
    ChannelClose,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionUnblocked,
    Method,
)
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.configuration.values import join_address
from amqproxy.conversion.client_name import given_name
from amqproxy.process.log import logger
from amqproxy.process.supervision import contained
from amqproxy.proxy.session.passage import Passage
from amqproxy.proxy.session.rule_log import RuleFailures, RuleLog
from amqproxy.proxy.upstreams.member import Member
from amqproxy.rules.context import Client
from amqproxy.rules.verdict import Verdict
from amqproxy.sockets.transport import Transport
from amqproxy.taps.metrics import Metrics, code_label
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.protocol_error import AnyProtocolError
from amqproxy.taps.tap import Tap
from amqproxy.taps.trace.snapshot import ConnectionSnapshot

VHOST_DOWN = "is down"
"""Part of RabbitMQ's text for a virtual host that does not run on this node: access to vhost '/' refused …: vhost '/'
is down.
"""

NORMAL = (0, 200)
"""The reply codes of a normal connection.close: 200, and 0 as py-amqp and Kombu have it."""

_ON_LEG = {CLIENT: Note(leg="client"), SERVER: Note(leg="upstream")}


class SessionEnd(NamedTuple):
    """The end of a session: by whom ("client", "server" or "proxy"), with which reply code (0: none), and why."""

    by: str
    code: int
    reason: str
    is_abnormal: bool = True
    is_probe: bool = False
    """Whether the client sent nothing at all, as health checks and idle connections of balancers do."""


class SessionReport:
    """The account of a session until it is closed. `end` is how the session ended, once it has.

    `number`, `name` and `is_tls` are the session's; taps know it by them, and by `upstream_name`. `upstream` is the
    transport to the broker, once there is one, and `member` the member of an upstream group that it leads to.
    """

    def __init__(
        self,
        number: int,
        name: str,
        metrics: Metrics,
        tap: Tap | None,
        rule_log: RuleLog | None = None,
        *,
        is_tls: bool = False,
    ) -> None:
        self.number = number
        self.name = name
        self.is_tls = is_tls
        self.stalled_ns = 0
        self.upstream: Transport | None = None
        self.member: Member | None = None
        self.metrics = metrics
        self.tap = tap
        self._rule_log = rule_log
        self.end: SessionEnd | None = None
        self._log = logger().bind(session=number, client=name.partition("-")[0])
        self._channel_count = 0
        self._is_open = False
        self._blocked_since: float | None = None

    @property
    def upstream_name(self) -> str:
        """Addresses of both ends of the broker connection, the proxy's first; empty if there is none or it has none."""
        ends = self.upstream.ends() if self.upstream is not None else None
        return "" if ends is None else "-".join(join_address(*end) for end in ends)

    def introduce(self, client: Client) -> None:
        """Bind the client's identity to all further log lines; `client` is the redacted view."""
        properties = client.properties
        found = {"user": client.user, "name": given_name(properties), "product": properties.get("product")}
        self._log = self._log.try_unbind(*found).bind(**{field: str(value) for field, value in found.items() if value})

    def finish(self, end: SessionEnd) -> None:
        """Record how the session ends; only the first end counts."""
        if self.end is None:
            self.end = end

    def close(self, now: float) -> None:
        """Count the end of the session and log its reason; `now` is in seconds."""
        self.note_channels(0)
        self._end_blocking(now)
        end = self.end or SessionEnd("proxy", 0, "cancelled")
        self.metrics.closes.labels(end.by, code_label(end.code) if end.code else "none").inc()
        log = self._log.warning if end.is_abnormal else self._log.info
        if self.end is not None and self.end.is_probe:
            log = self._log.debug
        if self.tap is not None:
            reason = f"server {end.reason[9:]}" if end.reason.startswith("upstream ") else end.reason
            with self._shown_to_tap():
                self.tap.saw_end(self, reason)
        log("connection closed", by=end.by, code=end.code or None, reason=end.reason)

    def log(self, level: str, text: str) -> None:
        """Log a rule's text about this session."""
        getattr(self._log, level)(text)

    def note_failed_rules(self, rules: Iterable[str], counts: Mapping[str, RuleFailures]) -> None:
        """Log the failures of rules."""
        if self._rule_log is not None:
            with self.contained("rules not reported"):
                self._rule_log.note_failures(rules, counts)

    def note_refusal(self, passage: Passage, sender: Peer, command: Command, verdict: Verdict) -> None:
        """Log that a rule has refused or dropped a command."""
        if self._rule_log is not None:
            with self.contained("refusal not logged"):
                self._rule_log.note_refusal(
                    self._log,
                    sender,
                    command,
                    verdict,
                    client=lambda: passage.shown_client,
                    covered=lambda: passage.covered_method(sender, command),
                )

    def note_protocol_header(self, data: bytes, sender: Peer = CLIENT) -> None:
        if self.tap is not None:
            with self._shown_to_tap():
                if sender is CLIENT:
                    self.tap.saw_protocol_header(self, data)
                else:
                    self.tap.saw_protocol_header(self, data, sender)

    def note_frames(self, sender: Peer, frames: Sequence[Any], note: Note = NOTHING) -> None:
        """Show a tap frames that have passed, with a note of how rules changed their command."""
        if self.tap is not None and frames:
            try:
                self.tap.saw_frames(self, sender, frames, note)
            except Exception as failure:  # a context for each chunk would cost more than showing it
                with self._shown_to_tap():
                    raise failure

    def note_own_frames(self, leg: Peer, sender: Peer, frames: Sequence[Any]) -> None:
        """Show a tap frames exchanged between the proxy and one peer only."""
        self.note_frames(sender, frames, _ON_LEG[leg])

    def note_bytes(self, sender: Peer, protocol: str, data: bytes) -> None:
        """Show the tap bytes of a protocol that is not decoded."""
        if self.tap is not None and data:
            with self._shown_to_tap():
                self.tap.saw_bytes(self, sender, protocol, data)

    def note_gap(self, frames: int) -> None:
        """Tell the tap that `frames` frames were not shown to it."""
        if self.tap is not None:
            with self._shown_to_tap():
                self.tap.saw_gap(self, frames)

    def note_snapshot(self, snapshot: ConnectionSnapshot) -> None:
        """Show the tap the state of the session, before its next frames."""
        if self.tap is not None:
            with self._shown_to_tap():
                self.tap.saw_snapshot(self, snapshot)

    def note_violation(self, sender: Peer, error: AnyProtocolError) -> None:
        """Record a protocol violation of `sender` that ends the session."""
        self.metrics.protocol_errors.labels(str(sender), code_label(int(error.code))).inc()
        if self.tap is not None:
            with self._shown_to_tap():
                self.tap.saw_violation(self, sender, error)
        self.finish(SessionEnd("proxy", int(error.code), f"the {sender} broke the protocol: {error}"))

    def note_passed_violation(self, sender: Peer, error: AnyProtocolError, consequence: str) -> None:
        """Record a protocol violation of `sender` that is forwarded nevertheless."""
        self.metrics.protocol_errors.labels(str(sender), code_label(int(error.code))).inc()
        self._log.warning(f"{consequence}: the {sender} broke the protocol: {error}")
        if self.tap is not None:
            with self._shown_to_tap():
                self.tap.saw_violation(self, sender, error)

    def contained(self, event: str, then: Callable[[Exception], None] | None = None) -> AbstractContextManager[None]:
        """Return a context that logs an internal error in one line naming the session, and calls `then` with it."""
        return contained(event, log=self._log, then=then)

    def note_failure(self, code: int) -> None:
        """Record that an internal error ends the session."""
        self.finish(SessionEnd("proxy", code, "internal error"))

    def note_open(self, vhost: str, heartbeat: int) -> None:
        self._is_open = True
        if self.member is not None and not getattr(self.upstream, "is_shared", False):  # which was open before
            self.member.note_open()
        self.metrics.opened.inc()
        self._log.info("connection open", vhost=vhost, heartbeat=heartbeat)

    @property
    def blocked_since(self) -> float | None:
        """Time at which the broker began to block the connection, in seconds; `None` while it does not."""
        return self._blocked_since

    def go_on(self, channels: int, blocked_since: float | None, client: Client) -> None:
        """Continue the account of an open connection from an earlier report, without counting anything twice."""
        self._is_open = True
        self._channel_count = channels
        self._blocked_since = blocked_since
        self.introduce(client)

    def note_method(self, sender: Peer, method: Method, now: float) -> None:
        """Count a method that has a dedicated metric; `now` is in seconds."""
        match method:
            case ConnectionClose() as close:
                if sender is SERVER and close.reply_code == AccessRefused.code and not self._is_open:
                    self.metrics.logins_refused.inc()
                self.note_close(sender, close.reply_code, close.reply_text)
            case ConnectionBlocked():
                if self._blocked_since is None:
                    self._blocked_since = now
                    self.metrics.blocked.inc()
                    if self.member is not None:
                        self.member.blocked += 1
            case ConnectionUnblocked():
                self._end_blocking(now)
            case ChannelOpenOk():
                self.metrics.channels_opened.inc()
            case ChannelClose() as close:
                self.note_channel_close(sender, close.reply_code)
            case _:
                pass

    def note_close(self, sender: Peer, code: int, text: str) -> None:
        """Record that a peer has sent connection.close."""
        if sender is SERVER and code == InternalError.code and VHOST_DOWN in text:
            self._report_member("vhost down", text)
        self.finish(SessionEnd(str(sender), code, text or "closed", is_abnormal=code not in NORMAL))

    def _report_member(self, kind: str, text: str) -> None:
        """Count a failure of the upstream's member, if the connection was not open."""
        if self.member is not None and not self._is_open and self.end is None:
            self.member.report_failure(kind, f"{self.member.address}: {text}", trio.current_time())

    def note_channel_close(self, sender: Peer, code: int) -> None:
        """Count a channel that a peer has closed, or a session that it has detached from one."""
        self.metrics.channel_closes.labels(str(sender), code_label(code)).inc()

    def _end_blocking(self, now: float) -> None:
        if self._blocked_since is not None:
            self.metrics.blocked.dec()
            if self.member is not None:
                self.member.blocked -= 1
            self.metrics.blocked_seconds.inc(max(0.0, now - self._blocked_since))
            self._blocked_since = None

    def note_channels(self, count: int) -> None:
        """Record the number of channels that are open."""
        if count != self._channel_count:
            self.metrics.channels.inc(count - self._channel_count)
            self._channel_count = count

    def _shown_to_tap(self) -> AbstractContextManager[None]:
        """Return a context that detaches a failing tap from this session, which continues."""
        return self.contained("tap failed", self._lose_tap)

    def _lose_tap(self, failure: Exception) -> None:
        self.tap = None
