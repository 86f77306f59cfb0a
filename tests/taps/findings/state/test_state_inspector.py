"""Findings about the proxy itself, from its state as time passes."""

from __future__ import annotations

from amqproxy.taps.findings.finding import NO_CONNECTION, Finding, Severity
from amqproxy.taps.findings.state.proxy_state import MemberState, ProxyState, UpstreamState
from amqproxy.taps.findings.state.state_inspector import StateInspector
from amqproxy.taps.findings.text import FindingLines

DAY = 86_400
START = 1_800_000_000


class Watched:
    """An inspector, and the time since its start in seconds."""

    def __init__(self) -> None:
        self.inspector = StateInspector()

    def look(self, at: float, *upstreams: UpstreamState, **certificates: float) -> list[Finding]:
        """What is found; `certificates` expire at this time, in seconds since the start."""
        ends = {f"{name}.crt": START + end for name, end in certificates.items()}
        return self.inspector.look(ProxyState(upstreams, ends), int((START + at) * 1e9))

    def seen(self, at: float, *upstreams: UpstreamState, **certificates: float) -> list[tuple[str, str, int]]:
        return [(each.connection, each.text, each.count) for each in self.look(at, *upstreams, **certificates)]


def blue(outages: int, failure: str = "", address: str = "a:5672") -> UpstreamState:
    return UpstreamState("blue", (MemberState(address, outages, failure),))


def test_a_member_that_was_left_out_three_times_within_half_an_hour_flaps() -> None:
    watched = Watched()
    assert watched.seen(0, blue(0)) == []
    assert watched.seen(100, blue(1)) == []
    assert watched.seen(200, blue(1)) == []
    assert watched.seen(300, blue(2)) == []
    [found] = watched.look(1900, blue(3, "a:5672 refused the connection"))
    assert (found.kind, found.severity, found.connection) == ("upstream-flapping", Severity.WARNING, "a:5672")
    assert found.text == "a:5672 of blue was left out 3 times within 30 minutes: a:5672 refused the connection"
    assert (found.stream, found.count, found.evidence) == (NO_CONNECTION, 1, ())
    assert watched.seen(1950, blue(4)) == []  # reported is the first, the tenth …
    assert [watched.seen(1950 + each, blue(4 + each)) for each in range(1, 9)][-1][0][2] == 10


def test_a_member_that_is_left_out_now_and_then_does_not_flap() -> None:
    watched = Watched()
    for number in range(10):
        assert watched.seen(901 * number, blue(number)) == []


def test_a_member_that_took_anothers_place_begins_at_none() -> None:
    watched = Watched()
    watched.look(0, blue(2))
    assert watched.seen(10, blue(0)) == []
    assert watched.seen(20, blue(1)) != []  # the address is what flaps
    watched.look(30)  # it is gone for a while
    assert watched.seen(40, blue(1)) == []


def test_three_outages_between_two_looks_are_enough() -> None:
    assert len(Watched().seen(0, blue(3))) == 1


def test_a_certificate_is_named_two_weeks_before_its_end_and_once_a_day() -> None:
    watched = Watched()
    end = 20.0 * DAY
    assert watched.seen(0, own=end, authority=400 * DAY) == []
    assert watched.seen(6 * DAY, own=end) == [("own.crt", "own.crt expires in 14.0 days", 1)]
    assert watched.seen(6.5 * DAY, own=end) == []
    for day in range(7, 15):
        assert watched.seen(day * DAY, own=end) == []
    assert watched.seen(15 * DAY, own=end) == [("own.crt", "own.crt expires in 5.0 days", 10)]
    assert watched.seen(16 * DAY, own=end + 90 * DAY) == []  # renewed


def test_an_expired_certificate_is_said_to_be_so() -> None:
    assert Watched().seen(0, own=-2.5 * DAY) == [("own.crt", "own.crt has expired 2.5 days ago", 1)]


def test_a_token_that_the_proxy_does_not_get() -> None:
    watched = Watched()
    assert watched.look(0, UpstreamState("blue")) == []
    [found] = watched.look(1, UpstreamState("blue", failed_renewals=1, renewal_fault="the issuer answered 401"))
    assert (found.kind, found.severity) == ("token-renewal-fails", Severity.ERROR)
    assert found.text == "the proxy got no token for blue: the issuer answered 401"
    assert watched.look(2, UpstreamState("blue", failed_renewals=1, renewal_fault="the issuer answered 401")) == []


def test_refusals_of_a_full_queue_are_counted_by_powers_of_ten() -> None:
    watched = Watched()
    found = watched.look(0, UpstreamState("blue", login_queue=10, refused_logins=250))
    assert [(each.kind, each.count) for each in found] == [("login-queue-full", count) for count in (1, 10, 100)]
    assert found[0].text == "blue refused clients, as 10 waited already to log in"
    assert watched.look(1, UpstreamState("blue", login_queue=10, refused_logins=999)) == []


def test_its_line_has_no_number_of_a_connection() -> None:
    [found] = Watched().look(0, own=-2.5 * DAY)
    first, *_ = FindingLines().line(found).splitlines()
    assert first == "08:00:00.000000      !         WARNING certificate-expires: own.crt has expired 2.5 days ago"
