"""The state of a proxy, and the findings in it, for all that read or count findings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from amqproxy.app.printing import PrintSettings
from amqproxy.app.state_watch import StateSource, watch_state
from amqproxy.app.watchers import Watchers
from amqproxy.configuration.config import Config, ListenerConfig, MetricsConfig
from amqproxy.configuration.config_file import read
from amqproxy.proxy.admission_queue import AdmissionQueue, QueueFull, Waiting
from amqproxy.proxy.logins.logins import Logins
from amqproxy.proxy.upstreams.group import UpstreamGroup
from amqproxy.proxy.upstreams.member import Member
from amqproxy.rules.matching.filters import compiled
from amqproxy.taps.findings.finding import Finding
from amqproxy.taps.findings.state.proxy_state import MemberState, ProxyState, UpstreamState
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.observer import ObserverSettings

EXPIRED = {"own.crt": 1.0}


def test_the_state_of_upstreams() -> None:
    members = [Member("a:1"), Member("b:1")]
    group = UpstreamGroup("blue", members, logins=AdmissionQueue(1.0, 1))
    members[0].note_failure("refused", "a:1 refused")
    group.eject(members[0], 0.0, "failures", 10.0)
    members[1].note_check(0.0, passed=False, fall=1, rise=1)
    assert group.logins is not None
    group.logins.enter(Waiting("10.0.0.1"))
    with pytest.raises(QueueFull):
        group.logins.enter(Waiting("10.0.0.1"))
    source = StateSource(lambda: [group])
    source.note_certificates(EXPIRED)
    states = (MemberState("a:1", 1, "a:1 refused"), MemberState("b:1", 1))
    assert source() == ProxyState((UpstreamState("blue", states, login_queue=1, refused_logins=1),), EXPIRED)


def test_the_state_of_tokens(tmp_path: Path) -> None:
    config = read("[[listen]]\n[upstream.login]\nuser = 'a'\ntoken_file = 'token'", tmp_path / "amqproxy.toml")
    logins = Logins(config, Metrics())
    [state] = StateSource(lambda: [UpstreamGroup("main", [])], logins)().upstreams
    assert (state.failed_renewals, "No such file" in state.renewal_fault) == (0, True)


async def test_findings_are_reported(autojump_clock: MockClock) -> None:
    found: list[Finding] = []
    source = StateSource()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch_state, source, found.extend)
        await trio.sleep(3)
        assert found == []
        source.note_certificates(EXPIRED)
        await trio.sleep(3)
        nursery.cancel_scope.cancel()
    assert [each.kind for each in found] == ["certificate-expires"]


async def test_a_failure_ends_no_later_look(autojump_clock: MockClock) -> None:
    found: list[Finding] = []

    def states() -> Iterator[ProxyState]:
        yield ProxyState(certificates=EXPIRED)

    waiting = states()

    def state() -> ProxyState:
        if trio.current_time() < 5:
            raise OSError("not now")
        return next(waiting, ProxyState())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch_state, state, found.extend)
        await trio.sleep(10)
        nursery.cancel_scope.cancel()
    assert len(found) == 1


@pytest.mark.parametrize(("is_filtered", "lines"), [(False, 1), (True, 0)])
async def test_they_are_counted_and_printed(is_filtered: bool, lines: int, autojump_clock: MockClock) -> None:
    wanted = compiled("method == 'basic.publish'") if is_filtered else None
    observed = ObserverSettings(messages=False, findings=True)
    config = Config(
        listen=(ListenerConfig(address="127.0.0.1:0"),),
        metrics=MetricsConfig(address="127.0.0.1:0", findings=True),
    )
    watchers = Watchers(config, PrintSettings(render=lambda record: record.text, observed=observed, wanted=wanted))
    assert watchers._printing is not None
    watchers.attach(lambda tap: None, "broker")
    source = StateSource()
    source.note_certificates(EXPIRED)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch_state, source, watchers.report)
        await trio.sleep(2)
        nursery.cancel_scope.cancel()
    assert len(watchers._printing._queue.take_records()) == lines
    labels = {"kind": "certificate-expires", "severity": "warning"}
    assert watchers.metrics.registry.get_sample_value("amqproxy_findings_total", labels) == 1
