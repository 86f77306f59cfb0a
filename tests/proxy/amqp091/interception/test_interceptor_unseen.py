"""Whatever passes unseen, what is heard is what would be heard if every method were evaluated."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.amqp091.frame import BODY, HEADER, METHOD, Frame, encode_frame, encode_method, every_frame
from amqproxy.amqp091.methods import BasicPublish, ChannelCloseOk, ChannelOpen, ChannelOpenOk, ConfirmSelect
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.amqp091.wire import Table
from amqproxy.proxy.amqp091.interception.repeated_publishes import MAX_NEVER_PASSING, MAX_UNSEEN
from amqproxy.rules.context import ChannelInfo, Client
from amqproxy.rules.engine.decision_cache import CachedPasses
from amqproxy.rules.engine.evaluator import RuleEvaluator, RuleSet
from amqproxy.rules.rule import Rule
from tests.example_count import example_count
from tests.proxy.interceptor_transcript import PRELUDE, Water, read
from tests.rules.scene import rule

pytestmark = pytest.mark.slow


class Strict(RuleEvaluator):
    """Spares nobody."""

    def passing(self, sender: Peer, frame: Frame, channel: ChannelInfo, now: float) -> CachedPasses | None:
        return None


NO_PROPERTIES = Properties()


def publish(
    channel: int, exchange: str, body: bytes = b"abc", key: str = "k", properties: Properties = NO_PROPERTIES
) -> bytes:
    octets = encode_method(channel, BasicPublish(exchange=exchange, routing_key=key))
    octets += encode_frame(HEADER, channel, ContentHeader(len(body), properties).encode())
    return octets + (encode_frame(BODY, channel, body) if body else b"")


def water(rules: RuleSet, kind: type[RuleEvaluator] = RuleEvaluator, number: int = 1) -> Water:
    made = Water(kind(rules, Client(session=number)))
    for line in PRELUDE.strip().splitlines():
        sender, octets = read(line)
        assert made.say(sender, octets)[sender.other] == octets
    return made


def exchanges(octets: bytes) -> list[str]:
    return [frame.method.exchange for frame in every_frame(octets, 0) if frame.kind == METHOD]


RENAMED = rule('action = "rewrite"\nname = "renamed"\nmatch.exchange = "a"\nexchange = "longer"')
LIMITED = rule('action = "limit"\nname = "limited"\nmatch.exchange = "b"\nof = "messages"\nrate = 2')


def test_a_publish_that_is_always_changed_alike_goes_on_changed_without_being_handed_over():
    rules = RuleSet([RENAMED])
    crossed = water(rules)
    for _ in range(3):
        said = publish(1, "a") + publish(2, "c") + publish(2, "a", b"")
        heard = crossed.say(CLIENT, said)[SERVER]
        assert heard == publish(1, "longer") + publish(2, "c") + publish(2, "longer", b"")
    assert crossed.interceptor.readers[CLIENT].feed(said) == []
    crossed.interceptor.count_unseen()
    assert rules.counts()["renamed"].hits == 8


def test_a_publish_passes_unseen_as_long_as_its_bucket_allows():
    crossed = water(RuleSet([LIMITED]))
    for _ in range(3):
        crossed.now += 1
        assert crossed.say(CLIENT, publish(1, "b") * 2)[SERVER] == publish(1, "b") * 2
    assert len(crossed.interceptor.readers[CLIENT].unseen) == 1
    assert crossed.say(CLIENT, publish(1, "b") + publish(2, "c"))[SERVER] == publish(2, "c"), "it waits"
    assert crossed.wait(0.5)[SERVER] == publish(1, "b")


def test_what_two_sessions_share_is_spent_but_once():
    rules = RuleSet([rule('action = "limit"\nof = "messages"\nrate = 5\nper = "user"\nact = "refuse"\nname = "l"')])
    one, other = water(rules, number=1), water(rules, number=2)
    for crossed in (one, other, one, other, one):
        assert crossed.say(CLIENT, publish(1, "x"))[SERVER] == publish(1, "x")
    assert b"more than 5 messages" in other.say(CLIENT, publish(1, "x"))[CLIENT]


def test_what_comes_behind_one_that_waits_waits_too_though_it_has_passed_unseen():
    held = rule('action = "hold"\nname = "held"\nmatch.exchange = "h"\ntimeout = 0.1')
    rules = RuleSet([held, RENAMED, LIMITED])
    crossed = water(rules)
    for exchange in "ab":
        crossed.say(CLIENT, publish(1, exchange))
    said = publish(1, "h") + publish(1, "a") + publish(2, "a") + publish(1, "b")
    assert crossed.say(CLIENT, said)[SERVER] == publish(2, "longer")
    assert crossed.wait(0.1)[SERVER] == publish(1, "h") + publish(1, "longer") + publish(1, "b")
    crossed.interceptor.count_unseen()
    assert rules.counts()["renamed"].hits == 3


def test_so_many_kinds_of_publish_are_remembered_and_no_more():
    crossed = water(RuleSet([RENAMED]))
    for number in range(2 * MAX_UNSEEN):
        said = publish(1, "a", key=f"{number}")
        assert crossed.say(CLIENT, said)[SERVER] == publish(1, "longer", key=f"{number}")
    assert len(crossed.interceptor.readers[CLIENT].unseen) <= MAX_UNSEEN
    assert len(crossed.interceptor._evaluation.repeated._passing) <= MAX_UNSEEN


class Counting(RuleEvaluator):
    """Counts how often it is asked what may pass unseen."""

    asked = 0

    def passing(self, sender: Peer, frame: Frame, channel: ChannelInfo, now: float) -> CachedPasses | None:
        self.asked += 1
        return super().passing(sender, frame, channel, now)


def test_what_has_to_be_evaluated_each_time_is_asked_about_once():
    crossed = water(RuleSet([rule('action = "tag"\nname = "t"\ntags = ["t"]\nwhen = "size > 5"')]), Counting)
    evaluator = crossed.interceptor.evaluator
    for body in (b"a", b"abcdef", b"a"):
        assert crossed.say(CLIENT, publish(1, "a", body) * 3)[SERVER] == publish(1, "a", body) * 3
    assert evaluator.asked == 1
    crossed.interceptor.ask_for_frames()
    crossed.say(CLIENT, publish(1, "a"))
    assert evaluator.asked == 2, "the evaluator may see it otherwise by now"
    for number in range(2 * MAX_NEVER_PASSING):
        crossed.say(CLIENT, publish(1, "a", key=f"{number}"))
    assert len(crossed.interceptor._evaluation.repeated._never_passing) <= MAX_NEVER_PASSING


KEYED = [
    rule('action = "refuse"\nname = "keys"\nmatch.routing_key = "bad"'),
    rule('action = "acl"\nname = "list"\nlines = \'deny anyone to publish routing_key "bad"; otherwise allow\''),
    rule('action = "acl"\nname = "queues"\nlines = \'deny anyone to publish queue "bad"; otherwise allow\''),
]


@pytest.mark.parametrize("keyed", KEYED)
def test_publishes_with_no_further_names_pass_unseen_by_rules_about_names(keyed: Rule):
    crossed = water(RuleSet([keyed]))
    plain = publish(1, "", properties=Properties(headers=Table({"n": 1})))
    assert crossed.say(CLIENT, plain)[SERVER] == plain
    assert crossed.interceptor.readers[CLIENT].feed(plain * 3) == []


@pytest.mark.parametrize("keyed", KEYED)
@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_a_publish_with_further_names_is_evaluated_though_others_like_it_have_passed(keyed: Rule, header: str):
    crossed = water(RuleSet([keyed]))
    assert crossed.say(CLIENT, publish(1, "") * 2)[SERVER] == publish(1, "") * 2
    named = publish(1, "", properties=Properties(headers=Table({header: ["bad"]})))
    heard = crossed.say(CLIENT, publish(1, "") + named)
    assert heard[SERVER].startswith(publish(1, ""))
    assert named not in heard[SERVER]
    assert heard[CLIENT], "it is refused"


# --- whatever the rules, and whatever is said

RULES = st.lists(
    st.sampled_from(
        [
            RENAMED,
            rule('action = "rewrite"\nname = "shorter"\nmatch.exchange = "longer"\nexchange = "a"\nboth_ways = false'),
            rule('action = "rewrite"\nname = "headers"\nmatch.exchange = "d"\nheaders.set.x = "y"'),
            rule('action = "refuse"\nname = "refused"\nmatch.exchange = "c"\nmatch.routing_key = "bad"'),
            rule('action = "refuse"\nname = "dropped"\nmatch.exchange = "d"\nwith = "drop"\nmatch.routing_key = "bad"'),
            rule('action = "allow"\nname = "allowed"\nmatch.exchange = "b"\nwhen = "routing_key != \'bad\'"'),
            rule('action = "tag"\nname = "tagged"\nmatch.exchange = ["a", "b"]\ntags = ["t"]'),
            LIMITED,
            rule('action = "limit"\nname = "all"\nof = "messages"\nrate = 3\nburst = 5\nper = "all"'),
            rule('action = "limit"\nname = "each"\nof = "messages"\nrate = 2\nper = ["user", "exchange"]'),
            rule('action = "limit"\nname = "shadow"\nof = "messages"\nrate = 1\nper = "user"\nmode = "shadow"'),
            rule('action = "limit"\nname = "nacked"\nof = "messages"\nrate = 4\nper = "user"\nact = "refuse"'),
            rule('action = "limit"\nname = "commands"\nof = "commands"\nrate = 5\nburst = 9'),
            rule('action = "limit"\nname = "lane"\nof = "messages"\nrate = 3\nper = "channel"'),
            rule('action = "refuse"\nname = "keys"\nwith = "drop"\nmatch.routing_key = "bad"'),
            rule('action = "limit"\nname = "key"\nof = "messages"\nrate = 2\nmatch.routing_key = "k"'),
            rule('action = "acl"\nname = "list"\nlines = \'deny anyone to publish routing_key "bad"\''),
            rule('action = "acl"\nname = "queues"\nlines = \'deny anyone to publish queue "bad"\''),
            rule('action = "limit"\nname = "octets"\nof = "bytes"\nrate = 20\nmatch.exchange = "b"'),
        ]
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda each: each.name,
)
NAMED = [
    Properties(headers=Table({"other": "CC"})),
    Properties(headers=Table({"CC": ["k"]})),
    Properties(headers=Table({"x": 1, "CC": ["j", "bad"]})),
    Properties(headers=Table({"BCC": ["bad"]})),
    Properties(reply_to="bad"),
    Properties(reply_to="good", content_type="text/plain"),
]
WORDS = st.lists(
    st.tuples(
        st.sampled_from([1, 2]),
        st.sampled_from(["a", "a", "b", "b", "c", "d", "longer", ""]),
        st.sampled_from(["k", "k", "k", "k", "bad"]),
        st.sampled_from([b"", b"abc"]),
        st.sampled_from([NO_PROPERTIES] * 4 + NAMED),
    ),
    max_size=6,
)
TURNS = st.lists(
    st.tuples(st.integers(0, 1), WORDS, st.sampled_from([0.0, 0.1, 0.5, 1.0]), st.integers(0, 400)), max_size=12
)


class Talk:
    """Two sessions of one user's, by the same rules."""

    def __init__(self, rules: list[Rule], kind: type[RuleEvaluator], *, confirms: bool) -> None:
        self.rules = RuleSet(rules)
        self.waters = [water(self.rules, kind, number) for number in range(2)]
        self.heard: list[object] = []
        self.rest = [b"", b""]
        if confirms:
            for number in range(2):
                self.say(number, encode_method(1, ConfirmSelect()))

    def say(self, number: int, octets: bytes) -> None:
        crossed = self.waters[number]
        if crossed.interceptor.refusal is None:
            self.heard.append((number, crossed.say(CLIENT, octets)))

    def wait(self, seconds: float) -> None:
        for number, crossed in enumerate(self.waters):
            self.heard.append((number, crossed.wait(seconds)))

    def reopen(self) -> None:
        """Let channels that were closed be used again."""
        for crossed in self.waters:
            for channel in (1, 2):
                if channel not in crossed.interceptor.channels or not crossed.interceptor.channels[channel].is_closed:
                    continue
                crossed.say(CLIENT, encode_method(channel, ChannelCloseOk()))
                crossed.say(SERVER, encode_method(channel, ChannelCloseOk()))
                crossed.say(CLIENT, encode_method(channel, ChannelOpen()))
                for _ in range(20):
                    if channel not in crossed.interceptor.connections[SERVER].channels:
                        crossed.wait(0.5)  # a limit may hold it up
                if channel in crossed.interceptor.connections[SERVER].channels:
                    crossed.say(SERVER, encode_method(channel, ChannelOpenOk()))


@settings(max_examples=example_count(200), deadline=None)
@given(RULES, TURNS, st.booleans())
def test_what_is_heard_is_what_would_be_heard_if_all_were_evaluated(rules, turns, confirms):
    talks = [Talk(rules, kind, confirms=confirms) for kind in (RuleEvaluator, Strict)]
    for number, words, pause, cut in turns:
        said = b"".join(publish(channel, exchange, body, key, named) for channel, exchange, key, body, named in words)
        for talk in talks:
            octets = talk.rest[number] + said
            end = max(0, len(octets) - cut)
            talk.say(number, octets[:end])
            talk.rest[number] = octets[end:]
            talk.wait(pause)
            if not any(talk.rest):
                talk.reopen()
        assert talks[0].heard == talks[1].heard
    for talk in talks:
        for number in range(2):
            talk.say(number, talk.rest[number])
            talk.waters[number].interceptor.count_unseen()
        talk.wait(60)
    assert talks[0].heard == talks[1].heard
    assert talks[0].rules.counts() == talks[1].rules.counts()
