"""Rules are checked, set, shown and switched while the proxy runs."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BasicPublish
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.configuration.config_file import load
from amqproxy.configuration.upstream_config import NamedUpstream
from amqproxy.control.request import (
    AddRule,
    CheckRules,
    EndRule,
    EnforceRule,
    GetRules,
    ListHeld,
    Release,
    RemoveRule,
    SetRules,
    ShadowRule,
)
from amqproxy.control.request_error import RequestError
from amqproxy.control.request_handler import ListResponse, RequestHandler
from amqproxy.control.rule_control import MAX_TEMPORARY, ReadRules, RuleControl
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.observing.mirror import Mirror
from amqproxy.rules.rewriting.rewrite import Rewrite
from tests.control.rule_owner import LOG, Owner
from tests.proxy.stage import OPEN, staged
from tests.rule_examples import DOCS, EXAMPLES
from tests.rules.scene import rule

REFUSE = 'name = "no"\naction = "refuse"\nmatch.method = "basic.publish"'


def refused(control: RuleControl, request: Any) -> RequestError:
    with pytest.raises(RequestError) as found:
        control.check(request) if isinstance(request, CheckRules) else control.switch(request)
    return found.value


def test_rules_are_set_where_there_were_none() -> None:
    owner = Owner()
    control = RuleControl(owner)
    with capture_logs() as log:
        answer = control.set(SetRules(rules=[LOG]))
    assert answer == {"rules": 1, "warnings": [], "until": "reload"}
    assert [each.name for each in owner.rules.rules] == ["look"]
    assert [(each["event"], each["rules"], each["until"]) for each in log] == [("rules set", 1, "the next reload")]
    assert control.get() == {"rules": [{"action": "log", **LOG}], "temporary": [], "bridge": [], "source": "control"}
    owner.apply_rules(RuleSet([rule(REFUSE)]))  # as a reload does
    assert control.get()["source"] == "file"
    assert control.set(SetRules(rules=[]))["rules"] == 0
    assert owner.rules.rules == ()


def test_what_rules_have_counted_and_remember_goes_on() -> None:
    owner = Owner(REFUSE)
    before = owner.rules.counts()["no"]
    RuleControl(owner).set(SetRules(text=f"[[rules]]\n{REFUSE}"))
    assert owner.rules.counts()["no"] is before


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"text": '[[rules]]\nname = "a"\naction = "log"\ntext = "x"\nmatch.methud = "basic.publish"'},
            "rules:5: rule 'a', rules[0].match: unknown key `methud`: did you mean `method`?",
        ),
        (
            {"text": '{"rules": [\n{"name": "a",\n"action": "nothing"}]}', "format": "json", "name": "a/my.json"},
            "a/my.json:3: rule 'a', rules[0].action: ",
        ),
        ({"text": "rules:\n- name: a\n  action: log\n  text: 1", "format": "yaml"}, "rules:4: rule 'a', rules[0].text"),
        ({"rules": [LOG, LOG]}, "rules: rule 'look', rules[1].name: `look` is the name of rules[0] too"),
        ({"rules": [LOG | {"when": "usr == 'a'"}]}, "rules: rule 'look', rules[0].when: "),
        ({"text": '[limits]\nconnections = 5\n[[rules]]\nname = "a"'}, "limits: only rules can be set"),
        ({"text": "rules = 5"}, "rules:1: rules: "),
        ({"text": "[[rules"}, "rules: "),
        ({"rules": [{"name": "m", "action": "mirror", "exchange": "x", "upstream": "other"}]}, "there is no `other`"),
        ({"rules": [{"name": "s", "action": "script", "file": "nowhere.py"}]}, "nowhere.py cannot be read"),
    ],
)
def test_wrong_rules_are_refused_with_the_place_and_change_nothing(given: dict[str, Any], text: str) -> None:
    owner = Owner(REFUSE)
    control = RuleControl(owner)
    before = owner.rules
    error = refused(control, CheckRules(**given))
    assert error.name == "wrong-rules"
    assert text in str(error)
    with pytest.raises(RequestError) as found:
        control.set(SetRules(**given))
    assert (found.value.name, str(found.value)) == ("wrong-rules", str(error))
    assert owner.rules is before


def test_a_check_changes_nothing_and_warns() -> None:
    owner = Owner()
    control = RuleControl(owner)
    everything = {"name": "all", "action": "allow"}
    answer = control.check(CheckRules(rules=[everything, LOG]))
    assert answer["rules"] == 2
    assert "is never evaluated" in answer["warnings"][0]
    assert owner.rules.rules == ()


def test_rules_may_name_the_upstreams_that_there_are() -> None:
    owner = Owner()
    upstreams = {"other": NamedUpstream(address="b:1", password_env="P")}
    control = RuleControl(owner, lambda: upstreams)
    control.set(SetRules(rules=[{"name": "m", "action": "mirror", "exchange": "x", "upstream": "other"}]))
    [mirror] = owner.rules.rules
    assert isinstance(mirror, Mirror)


# --- modes


def test_a_rule_is_switched_to_shadow_and_back() -> None:
    owner = Owner(REFUSE, 'name = "tag"\naction = "tag"\ntags = ["a"]')
    control = RuleControl(owner)
    with capture_logs() as log:
        assert control.switch(ShadowRule(rule="no")) == {"rule": "no", "mode": "shadow", "until": "reload"}
        assert [each.mode for each in owner.rules.rules] == ["shadow", "enforce"]
        before = owner.rules
        control.switch(ShadowRule(rule="no"))
        assert owner.rules is before
        control.switch(EnforceRule(rule="no"))
    assert [each.mode for each in owner.rules.rules] == ["enforce", "enforce"]
    assert [(each["rule"], each["mode"]) for each in log] == [("no", "shadow"), ("no", "enforce")]


def test_an_unknown_rule_is_not_switched() -> None:
    error = refused(RuleControl(Owner(REFUSE)), EnforceRule(rule="nop"))
    assert (error.name, str(error)) == ("no-rule", "there is no rule 'nop': did you mean `no`?")


def test_a_rule_keeps_what_it_has_taken_from_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_TEST", "s3cret")
    owner = Owner()
    control = RuleControl(owner)
    login = {"name": "in", "action": "rewrite", "user": "u", "password_env": "SECRET_OF_TEST"}
    control.set(SetRules(rules=[login]))
    [before] = owner.rules.rules
    control.switch(ShadowRule(rule="in"))
    [after] = owner.rules.rules
    assert isinstance(after, Rewrite)
    assert before.__dict__.items() <= after.__dict__.items()
    assert "s3cret" not in repr(control.get())


# --- what is shown


@pytest.mark.parametrize("example", EXAMPLES)
def test_what_is_shown_is_what_may_be_set(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for script in (DOCS / "rules").glob("*.py"):
        shutil.copy(script, tmp_path)
    (tmp_path / "upstream-password").write_text("s3cret\n")
    monkeypatch.setenv("UPSTREAM_PASSWORD", "s3cret")
    (tmp_path / "config.toml").write_text(example)
    config = load(tmp_path / "config.toml")
    owner = Owner()
    owner.rules = RuleSet(config.rules)
    control = RuleControl(owner, lambda: config.upstreams, tmp_path)
    shown = msgspec.json.encode(control.get()["rules"])
    assert b"s3cret" not in shown
    control.set(SetRules(text=shown.decode(), format="json"))
    assert owner.rules.rules == config.rules
    control.set(SetRules(rules=msgspec.json.decode(shown)))
    assert owner.rules.rules == config.rules


# --- in a session


async def test_rules_apply_to_open_sessions_and_what_was_redacted_stays_so(autojump_clock: MockClock) -> None:
    redact = {"name": "r", "action": "redact", "headers": ["card"]}
    hold = {"name": "look", "action": "hold", "match": {"method": "basic.publish"}}
    async with staged(OPEN) as stage:
        owner = Owner(stage=stage)
        handler = RequestHandler(owner, tuple, now=lambda: 0.0, time=lambda: 0.0)
        assert handler.answer(SetRules(rules=[redact, hold])) == {"rules": 2, "warnings": [], "until": "reload"}
        stage.client.say(publish(card="4711"))
        await wait_all_tasks_blocked()
        assert held(handler)["properties"]["headers"] == {"card": "***"}
        handler.answer(SetRules(rules=[]))
        assert handler.answer(GetRules()) == {"rules": [], "temporary": [], "bridge": [], "source": "control"}
        one = held(handler)
        assert one["properties"]["headers"] == {"card": "***"}
        await stage.play("broker: nothing")
        handler.answer(Release(session=1, number=one["number"]))
        await stage.play("broker: 1: basic.publish, 1: header 0")
        stage.client.say(publish(card="4712"))
        await stage.play("broker: 1: basic.publish, 1: header 0")


@pytest.mark.parametrize("kind", [CheckRules, SetRules])
async def test_others_are_served_while_rules_are_read(kind: type[CheckRules], monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand rules take a good part of a second."""
    may_go_on = threading.Event()
    read = RuleControl.read

    def read_slowly(self: RuleControl, request: CheckRules) -> ReadRules:
        assert may_go_on.wait(60)
        return read(self, request)

    monkeypatch.setattr(RuleControl, "read", read_slowly)
    owner = Owner()
    handler = RequestHandler(owner, tuple, now=lambda: 0.0, time=lambda: 0.0)
    answers: list[Any] = []

    async def ask() -> None:
        answers.append(await handler.answered(kind(rules=[LOG])))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        assert await handler.answered(GetRules()) == {"rules": [], "temporary": [], "bridge": [], "source": "file"}
        assert not answers
        may_go_on.set()
    assert [(each["rules"], each["warnings"]) for each in answers] == [(1, [])]
    assert [each.name for each in owner.rules.rules] == (["look"] if kind is SetRules else [])


async def test_wrong_rules_are_refused_from_the_thread_too() -> None:
    handler = RequestHandler(Owner(), tuple, now=lambda: 0.0, time=lambda: 0.0)
    with pytest.raises(RequestError, match="rules: "):
        await handler.answered(SetRules(text="[[rules"))


async def test_a_shadowed_rule_acts_no_more(autojump_clock: MockClock) -> None:
    async with staged(OPEN) as stage:
        owner = Owner(REFUSE, stage=stage)
        owner.apply_rules(owner.rules)
        handler = RequestHandler(owner, tuple, now=lambda: 0.0, time=lambda: 0.0)
        handler.answer(ShadowRule(rule="no"))
        await stage.play(">> 1: basic.publish, 1: header 0")
        assert owner.rules.counts()["no"].shadow_hits == 1
        handler.answer(EnforceRule(rule="no"))
        await stage.play(">> 1: basic.publish, 1: header 0\nbroker: 1: channel.close 200\nclient: 1: channel.close 403")


def publish(**headers: str) -> bytes:
    return Command(1, BasicPublish(exchange="x"), Properties(headers=Table(headers)), b"").encode(0)


def held(handler: RequestHandler) -> dict[str, Any]:
    answer = handler.answer(ListHeld())
    assert isinstance(answer, ListResponse)
    [one] = [each for each in answer.entries if each is not None]
    return msgspec.to_builtins(one)  # type: ignore[no-any-return]


def added(control: RuleControl, seconds: float = 60, **keys: Any) -> str:
    request = AddRule(rule=LOG | keys, seconds=seconds)
    return str(control.add(request, control.read_one(request))["rule"])


def names(owner: Owner) -> list[str]:
    return [each.name for each in owner.rules.rules]


async def test_a_temporary_rule_comes_first_survives_reloads_and_expires(autojump_clock: MockClock) -> None:
    owner = Owner(REFUSE)
    control = RuleControl(owner)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(control.expire)
        await wait_all_tasks_blocked()
        with capture_logs() as log:
            assert added(control, 100, mode="shadow") == "look"
            assert added(control, 50) == "look 2"
            assert names(owner) == ["look 2", "look", "no"]
            assert control.get()["source"] == "file"
            assert [each["name"] for each in control.get()["rules"]] == ["no"]
            assert [each["name"] for each in control.get()["temporary"]] == ["look 2", "look"]
            control.switch(EnforceRule(rule="look"))
            assert {each.mode for each in owner.rules.temporary} == {"enforce"}
            control.set(SetRules(rules=[LOG | {"name": "other"}]))
            owner.apply_rules(owner.rules.replaced([rule(REFUSE)]))  # as a reload does
            assert names(owner) == ["look 2", "look", "no"]
            ahead = 1000 - trio.current_time()
            assert [control.ends_at(name, ahead) for name in names(owner)] == [1050, 1100, None]
            await trio.sleep(51)
            assert names(owner) == ["look", "no"]
            assert added(control, 1000) == "look 2"
            await trio.sleep(50)
            assert names(owner) == ["look 2", "no"]
            control.end(EndRule(rule="look 2"))
            assert names(owner) == ["no"]
        events = [(each["event"], each.get("rule")) for each in log if each["event"].startswith("temporary")]
        nursery.cancel_scope.cancel()
    assert events == [
        ("temporary rule added", "look"),
        ("temporary rule added", "look 2"),
        ("temporary rule expired", "look 2"),
        ("temporary rule added", "look 2"),
        ("temporary rule expired", "look"),
        ("temporary rule ended", "look 2"),
    ]


async def test_a_rule_of_the_config_takes_the_name_of_a_temporary_one(autojump_clock: MockClock) -> None:
    owner = Owner()
    control = RuleControl(owner)
    added(control, name="no")
    owner.apply_rules(owner.rules.replaced([rule(REFUSE)]))
    assert [type(each).__name__ for each in owner.rules.rules] == ["Refuse"]
    with pytest.raises(RequestError, match="no temporary rule 'no'"):
        control.end(EndRule(rule="no"))


async def test_one_lasting_rule_is_removed_until_the_next_reload(autojump_clock: MockClock) -> None:
    owner = Owner(REFUSE, 'name = "other"\naction = "log"\ntext = "x"')
    control = RuleControl(owner)
    added(control, name="look")
    assert control.remove(RemoveRule(rule="no")) == {"rule": "no", "rules": 1, "until": "reload"}
    assert names(owner) == ["look", "other"]
    assert control.get()["source"] == "control"
    for name in ("no", "look", "othr"):
        with pytest.raises(RequestError, match="there is no lasting rule") as found:
            control.remove(RemoveRule(rule=name))
        assert found.value.name == "no-rule"
    assert "did you mean `other`" in str(found.value)


async def test_temporary_rules_are_bounded_and_checked(autojump_clock: MockClock) -> None:
    owner = Owner(REFUSE)
    control = RuleControl(owner)
    with pytest.raises(RequestError, match=r"rule 'look', rules\[0\].when"):
        added(control, when="usr == 'a'")
    with pytest.raises(RequestError, match="there is no temporary rule 'no'"):
        control.end(EndRule(rule="no"))
    for _ in range(MAX_TEMPORARY):
        added(control)
    with pytest.raises(RequestError, match="end one") as found:
        added(control)
    assert found.value.name == "busy"
    assert len(set(names(owner))) == MAX_TEMPORARY + 1


async def test_what_a_temporary_rule_holds_waits_on_when_the_rule_has_ended(autojump_clock: MockClock) -> None:
    one = {"name": "one", "action": "hold", "count": 1, "match": {"method": "basic.publish"}}
    async with staged(OPEN) as stage:
        owner = Owner(stage=stage)
        handler = RequestHandler(owner, tuple, now=lambda: 0.0, time=lambda: 0.0)
        handler.answer(AddRule(rule=one))
        stage.client.say(publish(card="4711"))
        await wait_all_tasks_blocked()
        waiting = held(handler)
        handler.answer(EndRule(rule="one"))
        await stage.play("broker: nothing")
        handler.answer(Release(session=1, number=waiting["number"]))
        await stage.play("broker: 1: basic.publish, 1: header 0")
        stage.client.say(publish(card="4712"))
        await stage.play("broker: 1: basic.publish, 1: header 0")


async def test_an_inserted_rule_precedes_all_others_until_it_is_withdrawn(autojump_clock: MockClock) -> None:
    owner = Owner(REFUSE)
    control = RuleControl(owner)
    first, second = (rule(f'name = "switch"\naction = "log"\ntext = "{text}"') for text in ("x", "y"))
    control.insert(first)
    added(control, name="look")
    control.insert(second)
    assert owner.rules.rules[0] is second
    assert names(owner) == ["switch", "look", "no"]
    assert control.ends_at("switch", 5.0) is None
    for _ in range(2):
        control.withdraw("switch")
        assert names(owner) == ["look", "no"]
