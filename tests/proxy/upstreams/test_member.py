"""A member of an upstream group: when it takes clients, and how many."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.proxy.upstreams.member import LEAST_SHARE, TAKES_CLIENTS, Member, Standing


def test_a_new_member_is_up_with_its_whole_share() -> None:
    member = Member("a:1", weight=3, slow_start=30.0)
    assert member.standing(0.0) is Standing.UP
    assert member.share(0.0) == 3.0


def test_an_ejected_member_returns_in_a_slow_start() -> None:
    member = Member("a:1", weight=10, slow_start=20.0)
    member.eject(100.0, 10.0)
    steps = [(100.0, "ejected"), (109.9, "ejected"), (110.0, "slow start"), (129.9, "slow start"), (130.0, "up")]
    assert [(now, str(member.standing(now))) for now, _ in steps] == steps
    assert [member.share(now) for now in (110.0, 112.0, 120.0, 130.0)] == [10 * LEAST_SHARE, 1.0, 5.0, 10.0]


def test_checks_take_a_member_down_and_up() -> None:
    member = Member("a:1", slow_start=5.0)
    results = [False, False, True, False, False, False, True, False, True, True]
    changed = [member.note_check(float(now), passed=passed, fall=3, rise=2) for now, passed in enumerate(results)]
    assert [now for now, change in enumerate(changed) if change] == [5, 9]
    assert member.standing(9.0) is Standing.STARTING
    assert member.standing(14.0) is Standing.UP


@pytest.mark.parametrize("is_down", [False, True])
def test_what_an_operator_decides_goes_before_what_checks_find(is_down: bool) -> None:
    member = Member("a:1")
    if is_down:
        member.note_check(0.0, passed=False, fall=1, rise=1)
    member.is_draining = True
    assert member.standing(0.0) is Standing.DRAINING
    member.readmit(1.0)
    assert member.standing(1.0) is (Standing.DOWN if is_down else Standing.UP)


def test_a_readmitted_member_starts_slowly() -> None:
    member = Member("a:1", slow_start=10.0)
    member.eject(0.0, 1000.0)
    member.readmit(5.0)
    assert member.standing(5.0) is Standing.STARTING
    assert member.standing(15.0) is Standing.UP


def test_a_success_ends_a_row_of_failures() -> None:
    member = Member("a:1")
    member.note_failure("refused", "a:1 refused")
    member.note_connected(0.25)
    assert (member.failures, member.connections, member.picks, member.connect_seconds) == (1, 1, 1, 0.25)
    member.note_open()
    assert member.failures == 0
    assert member.failures_by_kind["refused"] == 1
    member.note_disconnected()
    assert member.connections == 0


def test_a_weight_set_by_an_operator_lasts_until_the_config_changes_it() -> None:
    member = Member("a:1", weight=2)
    member.weight = 7
    member.configure(weight=2, priority=1, zone="z", slow_start=1.0)
    assert (member.weight, member.priority, member.zone, member.slow_start) == (7, 1, "z", 1.0)
    member.configure(weight=3, priority=1, zone="z", slow_start=1.0)
    assert member.weight == 3


EVENTS = st.lists(st.sampled_from(["fail", "pass", "eject", "drain", "readmit", "wait"]), max_size=40)


@given(EVENTS)
def test_a_member_always_returns(events: list[str]) -> None:
    member, now = Member("a:1", slow_start=10.0), 0.0
    for event in events:
        match event:
            case "fail" | "pass":
                member.note_check(now, passed=event == "pass", fall=2, rise=2)
            case "eject":
                member.eject(now, 7.0)
            case "drain":
                member.is_draining = True
            case "readmit":
                member.readmit(now)
            case _:
                now += 3.0
        assert 0 < member.share(now) <= 1.0
    member.readmit(now)
    for _ in range(2):
        member.note_check(now, passed=True, fall=2, rise=2)
    assert member.standing(now) in TAKES_CLIENTS
    assert member.standing(now + 10.0) is Standing.UP
