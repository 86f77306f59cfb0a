"""What upstreams, switches and certificates count, as Prometheus reads it."""

from __future__ import annotations

from amqproxy.proxy.upstreams.group import UpstreamGroup
from amqproxy.proxy.upstreams.member import Member, Standing
from amqproxy.switching.phase import Phase
from amqproxy.taps.fleet_collectors import MEMBER_STATES, SWITCH_PHASES, SwitchCounts
from amqproxy.taps.metrics import Metrics


def test_the_states_are_those_of_members_and_switches() -> None:
    assert tuple(map(str, Standing)) == MEMBER_STATES
    assert tuple(map(str, Phase)) == SWITCH_PHASES


def test_members() -> None:
    member = Member("a:5672")
    member.note_check(0.0, passed=False, fall=1, rise=1)
    metrics = Metrics()
    metrics.count_upstreams(lambda: [UpstreamGroup("blue", [member])])
    labels = {"upstream": "blue", "member": "a:5672"}
    value = metrics.registry.get_sample_value
    assert value("amqproxy_upstream_member_downs_total", labels) == 1
    assert value("amqproxy_upstream_member_tls_handshakes_total", labels) == 0
    assert value("amqproxy_upstream_member_state", {**labels, "state": "down"}) == 1


def test_switches() -> None:
    metrics = Metrics()
    counts = SwitchCounts("s", "messages to target", clients=1, told=40, moved=500, left=7, waits=True)
    metrics.count_switches(lambda: [counts])
    value = metrics.registry.get_sample_value
    names = ("clients", "clients_told_total", "messages_moved_total", "messages_left", "waits")
    assert [value(f"amqproxy_switch_{name}", {"switch": "s"}) for name in names] == [1, 40, 500, 7, 1]
    phases = [value("amqproxy_switch_phase", {"switch": "s", "phase": each}) for each in SWITCH_PHASES]
    assert phases == [0, 0, 1, 0, 0, 0]


def test_certificates() -> None:
    metrics = Metrics()
    metrics.count_certificates(lambda: {"tls.crt": 1.8e9})
    assert metrics.registry.get_sample_value("amqproxy_certificate_expires_seconds", {"file": "tls.crt"}) == 1.8e9
