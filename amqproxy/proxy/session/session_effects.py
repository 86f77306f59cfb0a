"""Carries out what rules want besides what is sent to the two peers: log lines, and copies for mirrors."""

from __future__ import annotations

from collections.abc import Iterable

from amqproxy.proxy.interception.effects import InterceptorEffects
from amqproxy.proxy.mirroring.mirror_drops import DropReason
from amqproxy.proxy.mirroring.mirror_publisher import MirrorLogin
from amqproxy.proxy.mirroring.mirrors import Mirrors
from amqproxy.proxy.session.passage import CoveredView
from amqproxy.proxy.session.session_report import SessionReport
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.verdict import MirroredCopy
from amqproxy.taps.metrics import Metrics


def log_effects(
    effects: InterceptorEffects, passage: CoveredView, report: SessionReport, rules: RuleSet | None
) -> None:
    """Log what rules want logged, that they have failed, and what they have refused."""
    for level, text in effects.logged:
        report.log(level, text)
    if effects.failed and rules is not None:
        report.note_failed_rules(effects.failed, rules.counts())
    for sender, command, verdict in effects.refused:
        report.note_refusal(passage, sender, command, verdict)


def send_copies(
    copies: Iterable[MirroredCopy], mirrors: Mirrors | None, login: MirrorLogin | None, report: SessionReport
) -> None:
    """Hand copies to their mirrors, which send them in tasks of their own; `login` is the client's, if it is known."""
    for copy in copies:
        if mirrors is None or login is None:
            _drop_copy(report.metrics)
            continue
        with report.contained("copy not made", lambda _: _drop_copy(report.metrics)):
            mirrors.put(copy, login)


def _drop_copy(metrics: Metrics) -> None:
    metrics.copies_dropped.labels(str(DropReason.UPSTREAM)).inc()
