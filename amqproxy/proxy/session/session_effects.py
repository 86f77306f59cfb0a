"""Side effects of rules apart from frames: log lines, copies for mirrors, stream faults."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

from amqproxy.peer import Peer
from amqproxy.proxy.faulty_transport import FaultyTransport
from amqproxy.proxy.interception.effects import InterceptorEffects
from amqproxy.proxy.leg import Leg
from amqproxy.proxy.mirroring.mirror_drops import DropReason
from amqproxy.proxy.mirroring.mirror_publisher import MirrorLogin
from amqproxy.proxy.mirroring.mirrors import Mirrors
from amqproxy.proxy.session.passage import Passage
from amqproxy.proxy.session.session_report import SessionReport
from amqproxy.proxy.session.session_tasks import SessionTasks
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.verdict import Impairment, MirroredCopy
from amqproxy.taps.metrics import Metrics


def log_effects(effects: InterceptorEffects, passage: Passage, report: SessionReport, rules: RuleSet | None) -> None:
    """Log the lines that rules requested, the failures of rules, and the commands that they refused."""
    for level, text in effects.logged:
        report.log(level, text)
    if effects.failed and rules is not None:
        report.note_failed_rules(effects.failed, rules.counts())
    for sender, command, verdict in effects.refused:
        report.note_refusal(passage, sender, command, verdict)


def send_copies(
    copies: Iterable[MirroredCopy], mirrors: Mirrors | None, login: MirrorLogin | None, report: SessionReport
) -> None:
    """Queue copies at their mirrors, which publish them in their own tasks; drop them if `login` is not known."""
    for copy in copies:
        if mirrors is None or login is None:
            _drop_copy(report.metrics)
            continue
        with report.contained("copy not made", lambda _: _drop_copy(report.metrics)):
            mirrors.put(copy, login)


def impair(impairments: Iterable[Impairment], legs: Mapping[Peer, Leg[Any]], tasks: SessionTasks | None) -> None:
    """Apply impairments to the bytes sent to a peer; no effect if there are no `tasks` any more."""
    if tasks is None:
        return
    for impairment in impairments:
        leg = legs[impairment.to]
        if not isinstance(leg.transport, FaultyTransport):
            leg.transport = FaultyTransport(leg.transport, random.random)
            tasks.start_soon(leg.transport.run)
        leg.transport.impair(impairment)


def _drop_copy(metrics: Metrics) -> None:
    metrics.copies_dropped.labels(str(DropReason.UPSTREAM)).inc()
