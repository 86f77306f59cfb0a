"""A group of brokers: ranks, ejections, and that never all of them are left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.configuration.upstream_config import Ejection
from amqproxy.proxy.upstreams.group import MemberEvent, UpstreamGroup
from amqproxy.proxy.upstreams.member import Member, Standing
from amqproxy.rules.context import Client


def group(*names: str, zone: str = "", random: float = 0.0, **of_all: float) -> UpstreamGroup:
    """Members by their names; a digit behind one is its priority, a capital letter its zone."""
    members = []
    for name in names:
        priority = int("".join(filter(str.isdigit, name)) or 0)
        members.append(Member(name, priority=priority, zone="".join(filter(str.isupper, name)), **of_all))
    return UpstreamGroup(
        "g", members, zone=zone, ejection=Ejection(failures=2, time=10.0, most=100.0), random=lambda: random
    )


def order(found: UpstreamGroup, now: float = 0.0) -> str:
    return " ".join(member.address for member in found.candidates(now))


def fail(found: UpstreamGroup, name: str, now: float = 0.0, times: int = 2) -> None:
    member = found.member(name)
    assert member is not None
    for _ in range(times):
        found.note_failure(member, "refused", "refused", now)


def down(found: UpstreamGroup, name: str) -> None:
    member = found.member(name)
    assert member is not None
    found.note_check(member, 0.0, "silent", fall=1, rise=1)


def standings(found: UpstreamGroup, now: float = 0.0) -> list[str]:
    return [str(each.standing(now)) for each in found.members]


def test_ranks_are_priority_then_zone() -> None:
    assert order(group("dB", "c1A", "aA", "b1B", zone="A")) == "aA dB c1A b1B"


def test_what_fails_is_the_last_resort_in_order() -> None:
    found = group("a", "b", "c", "d", "e", "f", "g", "h")
    fail(found, "a")
    down(found, "b")
    found.members[2].is_draining = True
    found.members[3].weight = 0
    found.members[4].blocked = 1
    assert order(found) == "f g h e a b"


def test_failures_in_a_row_eject() -> None:
    events: list[MemberEvent] = []
    found = group("a", "b", "c")
    found.on_event = lambda group, event: events.append(event)
    fail(found, "a", times=1)
    assert standings(found) == ["up", "up", "up"]
    fail(found, "a", times=1)
    assert standings(found) == ["ejected", "up", "up"]
    assert standings(found, 10.0) == ["up", "up", "up"]
    [event] = events
    assert (event.member.address, event.standing, event.reason) == (
        "a",
        Standing.EJECTED,
        "for 10 s after 2 failures in a row: refused",
    )


def test_ejections_double_up_to_the_longest_and_begin_anew_after_good_conduct() -> None:
    found, now, lasted = group("a", "b"), 0.0, []
    member = found.members[0]
    for _ in range(6):
        fail(found, "a", now)
        lasted.append(member.ejected_until - now)
        now = member.ejected_until
    assert lasted == [10, 20, 40, 80, 100, 100]
    now += 101.0
    fail(found, "a", now)
    assert member.ejected_until - now == 10


def test_ejections_are_jittered() -> None:
    found = group("a", "b", random=0.99)
    fail(found, "a")
    assert found.members[0].ejected_until == pytest.approx(12.475)


@pytest.mark.parametrize(("count", "most"), [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2), (10, 5)])
def test_never_is_more_than_half_of_a_group_ejected(count: int, most: int) -> None:
    found = group(*[f"m{'x' * number}" for number in range(count)])
    for member in found.members:
        fail(found, member.address, times=9)
    assert standings(found).count("ejected") == most
    assert found.is_panicking(0.0)
    assert len(found.candidates(0.0)) == count
    assert found.takes_clients(0.0)


def test_in_panic_ejected_members_are_tried_like_others() -> None:
    found = group("a", "b", "c")
    fail(found, "a")
    assert order(found).split()[-1] == "a"
    fail(found, "b")
    fail(found, "c")
    assert {found.candidates(0.0)[0].address for _ in range(3)} == {"a", "b", "c"}


def test_a_group_takes_clients_until_all_are_down_or_draining() -> None:
    found = group("a", "b")
    down(found, "a")
    assert found.takes_clients(0.0)
    found.members[1].is_draining = True
    assert not found.takes_clients(0.0)
    assert order(found) == "a"  # it is tried all the same: checks may be wrong


def test_an_operator_may_eject_for_any_time() -> None:
    found = group("a", "b")
    found.eject(found.members[0], 5.0, "an operator's request", 60.0)
    assert standings(found, 64.0) == ["ejected", "up"]
    assert standings(found, 65.0) == ["up", "up"]


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["fail", "reach", "wait", "down", "up"])), max_size=60))
def test_a_client_always_finds_every_member_that_does_not_drain(events: list[tuple[int, str]]) -> None:
    found, now = group("a", "b", "c1", "dA", "e2"), 0.0
    for place, event in events:
        member = found.members[place]
        match event:
            case "fail":
                found.note_failure(member, "timeout", "", now)
            case "reach":
                member.note_open()
            case "wait":
                now += 4.0
            case _:
                found.note_check(member, now, "" if event == "up" else "silent", fall=1, rise=1)
        assert len(found.candidates(now)) == 5
        ejected = sum(each.standing(now) is Standing.EJECTED and not each.is_down for each in found.members)
        assert ejected <= 2


@pytest.mark.parametrize(("hash_by", "key"), [("address", "10.0.0.1"), ("user", "a"), ("vhost", "v")])
def test_the_hash_is_of_what_the_config_names(hash_by: str, key: str) -> None:
    group = UpstreamGroup("g", [], hash_by=hash_by)
    assert group.key_of(Client(address="10.0.0.1", user="a", vhost="v")) == key
