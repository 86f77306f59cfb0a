"""How much time taps get, and what a session does that has used it up."""

from __future__ import annotations

from random import Random

import pytest
from trio.testing import MockClock

from amqproxy.amqp091.methods import BasicPublish
from amqproxy.peer import CLIENT
from amqproxy.proxy.session.tap_budget import BURST, OWN_SHARE, SHARE, TapBudget, TapShare
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.taps.tap import TappedSession
from tests.proxy.amqp010_script import ATTACH, LOGIN, transfer
from tests.proxy.amqp010_stage import play
from tests.proxy.recording_tap import Audience
from tests.proxy.stage import OPEN, staged
from tests.rules.scene import rule
from tests.taps.trace.traced import frames_of

PUBLISH = "1: basic.publish, 1: header 1, 1: body 1"


def test_what_is_used_comes_back_with_time() -> None:
    budget = TapBudget(share=0.5, burst=1.0)
    assert budget.is_full(10.0)
    budget.take(2.0, 10.0)
    assert not budget.has_left(11.0)
    assert budget.has_left(12.5)
    assert not budget.is_full(12.5)
    assert budget.is_full(100.0)


def test_one_that_takes_all_the_time_leaves_others_theirs() -> None:
    common = TapBudget()
    busy, quiet = TapShare(common), TapShare(common)
    now = 1.0
    shown = {busy: 0.0, quiet: 0.0}
    while now < 31.0:
        for share, seconds in ((busy, 2e-3), (quiet, 20e-6)):
            began, now = now, now + seconds
            if share.is_hidden:
                share.is_hidden = not share.may_show(began)
            if not share.is_hidden:
                shown[share] += seconds
                share.is_hidden = share.spend(began, now)
    assert shown[busy] <= SHARE * 30 + 2 * BURST
    assert shown[busy] >= 0.8 * SHARE * 30
    assert shown[quiet] >= 0.9 * 20e-6 / 2.02e-3 * 30  # it needs less than its own share
    assert OWN_SHARE > 20e-6 / 2.02e-3


def test_a_turn_in_which_the_system_ran_others_does_not_hide_a_quiet_session_for_long() -> None:
    common = TapBudget()
    common.take(1000.0, 1.0)  # others use up all there is
    quiet = TapShare(common)
    assert quiet.spend(1.0, 2.0)
    assert not quiet.may_show(2.1)
    assert quiet.may_show(2.3)


class Lossy(Audience):
    """A tap that may miss frames."""

    may_miss_frames = True


class Scripted(TapBudget):
    """A budget that is used up when it is told so."""

    __slots__ = ("is_spent",)

    def has_left(self, now: float) -> bool:
        return not self.is_spent

    is_full = has_left


@pytest.mark.parametrize("tap", [Lossy(), Audience()])
async def test_frames_that_there_is_no_time_for_are_counted(autojump_clock: MockClock, tap: Audience) -> None:
    budget = Scripted(share=0.0, burst=0.0)
    budget.is_spent = False
    rules = RuleSet([rule('name = "tag"\naction = "tag"\ntags = ["a"]\nmatch.method = "tx.select"')])
    async with staged(OPEN, tap=tap, tap_budget=budget, rules=rules) as stage:
        share = stage.session.traffic._tap_share
        assert share is not None
        share._own = budget
        tap.seen.clear()
        budget.is_spent = True
        await stage.play(f">> {PUBLISH}")  # is shown, and uses up the time
        await stage.play(f">> {PUBLISH}, {PUBLISH}\n<< 1: basic.ack")
        budget.is_spent = False
        await stage.play(f">> {PUBLISH}")  # with its end there is time again
        await stage.play(f">> {PUBLISH}")
        await stage.play(">> EOF\n<< EOF")
    shown = ["client basic.publish", "client 2", "client 3"]
    if tap.may_miss_frames:
        assert tap.seen == [*shown, "10 frames not shown", *shown]
    else:
        assert tap.seen == [*shown, *shown, *shown, "server basic.ack", *shown, *shown]


async def test_what_passes_without_rules_is_all_shown_since_that_takes_no_time(autojump_clock: MockClock) -> None:
    budget = Scripted(share=0.0, burst=0.0)
    budget.is_spent = True
    tap = Lossy()
    async with staged(OPEN, tap=tap, tap_budget=budget) as stage:
        tap.seen.clear()
        await stage.play(f">> {PUBLISH}")
        await stage.play(f">> {PUBLISH}")
    assert tap.seen == ["client basic.publish", "client 2", "client 3"] * 2


async def test_what_was_hidden_is_shown_again_once_no_rule_can_hold(autojump_clock: MockClock) -> None:
    """For the same reason: nothing would show it later, either."""
    budget = Scripted(share=0.0, burst=0.0)
    budget.is_spent = True
    tap = Lossy()
    rules = RuleSet([rule('name = "tag"\naction = "tag"\ntags = ["a"]\nmatch.user = "another"')])
    async with staged(tap=tap, tap_budget=budget, rules=rules) as stage:
        await stage.play(">> header")
        traffic = stage.session.traffic
        assert traffic is not None
        assert traffic._tap_share is not None
        traffic._tap_share._own = budget
        await stage.play(OPEN.replace(">> header", "", 1))
        # Where there are pumps, a relay asks by itself, before it receives again, whether one may take the connection.
        assert traffic._tap_share.is_hidden or stage.pumps is not None
        assert not traffic._is_steady()
        assert traffic.interceptor is None
        assert [line for line in tap.seen if line.endswith("frames not shown")]
        await stage.play(f">> {PUBLISH}")
        assert tap.seen[-3:] == ["client basic.publish", "client 2", "client 3"]


async def test_so_it_is_in_0_10_where_the_rules_go(autojump_clock: MockClock) -> None:
    budget = Scripted(share=0.0, burst=0.0)
    budget.is_spent = False
    tap = Lossy()
    rules = RuleSet([rule('name = "tag"\naction = "tag"\ntags = ["a"]\nmatch.method = "basic.publish"')])
    async with staged(tap=tap, tap_budget=budget, rules=rules) as stage:
        await play(stage, [*LOGIN, *ATTACH])
        traffic = stage.session.traffic
        assert traffic is not None
        assert traffic._tap_share is not None
        traffic._tap_share._own = budget
        budget.is_spent = True
        await play(stage, [(CLIENT, transfer(b"shown")), (CLIENT, transfer(b"not shown"))])
        assert traffic._tap_share.is_hidden
        stage.session.apply_rules(RuleSet(()))
        await play(stage, [(CLIENT, transfer(b"shown"))])
    assert tap.seen[-4:] == [
        "3 frames not shown",
        "client message.transfer #2",
        "client header #2",
        "client body #2",
    ]


class Noting(Lossy):
    """Notes the end, too."""

    def saw_end(self, session: TappedSession, reason: str) -> None:
        self.seen.append("end")


async def test_what_was_not_shown_when_the_session_ends_is_known_before_its_end(autojump_clock: MockClock) -> None:
    """Else what was settled unseen would be taken for open at the end."""
    budget = Scripted(share=0.0, burst=0.0)
    budget.is_spent = True
    tap = Noting()
    rules = RuleSet([rule('name = "tag"\naction = "tag"\ntags = ["a"]\nmatch.method = "tx.select"')])
    async with staged(OPEN, tap=tap, tap_budget=budget, rules=rules) as stage:
        share = stage.session.traffic._tap_share
        assert share is not None
        share._own = budget
        share.is_hidden = False
        tap.seen.clear()
        await stage.play(f">> {PUBLISH}")
        await stage.play(f">> {PUBLISH}\n<< 1: basic.ack")
        await stage.play(">> EOF\n<< EOF")
    assert tap.seen[-2:] == ["4 frames not shown", "end"]


class Fickle(TapBudget):
    """Is used up and there again at random."""

    __slots__ = ("dice",)

    def has_left(self, now: float) -> bool:
        return self.dice.random() < 0.5

    is_full = has_left


REWRITING = 'name = "x"\naction = "rewrite"\nmatch.routing_key = "x"\nrouting_key = "longer"'
LOOKING = 'name = "b"\naction = "tag"\ntags = ["a"]\nmatch.body = "never"'


@pytest.mark.parametrize("seed", range(6))
async def test_what_is_shown_or_not_changes_no_byte(autojump_clock: MockClock, seed: int) -> None:
    """Also where that changes in the middle of a content, and of a read that is taken in several turns."""
    heard: list[bytes] = []
    for is_fickle in (False, True):
        dice = Random(seed)
        budget = Fickle(share=0.0, burst=0.0)
        budget.dice = Random(seed + 1)
        tap = Lossy()
        async with staged(
            OPEN,
            tap=tap if is_fickle else None,
            tap_budget=budget if is_fickle else None,
            rules=RuleSet([rule(REWRITING), rule(LOOKING)]),
        ) as stage:
            if is_fickle:
                share = stage.session.traffic._tap_share
                assert share is not None
                share._own = budget
            stage.broker.look()
            frames = [
                frame.raw
                for _ in range(400)
                for frame in frames_of(
                    dice.choice((1, 2)),
                    BasicPublish(exchange="e", routing_key=dice.choice("xy")),
                    body=bytes(dice.choice((0, 1, 3, 500))),
                )
            ]
            data = b"".join(frames)
            while data:
                size = dice.choice((1, 7, 100, 30_000))
                stage.client.say(data[:size])
                data = data[size:]
                await stage.broker.sees()
            heard.append(bytes(stage.broker.seen))
        if is_fickle:
            assert "client basic.publish" in tap.seen
            assert any(line.endswith("not shown") for line in tap.seen)
    assert heard[0] == heard[1]
