"""Rules: their effects, and changes to them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import yaml
from fastapi import APIRouter, Response
from fastapi import Path as PathParameter
from pydantic import Field

from amqproxy.dashboard.api.actions import Body
from amqproxy.dashboard.api.control import ActorOf, asked, entries_of
from amqproxy.dashboard.api.dependencies import SourceOf
from amqproxy.dashboard.api.queries import ListQueryOf, frame_selection
from amqproxy.dashboard.api.responses import json_response
from amqproxy.dashboard.frame_query import entries_for
from amqproxy.dashboard.problem import Problem
from amqproxy.dashboard.rule_trial import try_rules
from amqproxy.dashboard.rule_vocabulary import rule_vocabulary

router = APIRouter(tags=["rules"])

MAX_RULES_TEXT = 4 * 1024 * 1024


class RulesBody(Body):
    """Rules as a text, in the format of a config file; `name` is what errors call it."""

    text: Annotated[str, Field(max_length=MAX_RULES_TEXT)]
    format: Literal["toml", "yaml", "json"] = "yaml"
    name: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[\w. -]+$")] = "rules"


class ModeBody(Body):
    """Whether a rule acts, or only counts what it would do."""

    mode: Literal["enforce", "shadow"]


class TemporaryRuleBody(Body):
    """A rule as in a config file, and for how many seconds it is in force."""

    rule: dict[str, Any]
    seconds: Annotated[float, Field(gt=0, le=86_400)] = 600.0


@router.get("/sources/{source}/rules")
async def list_rules(source: SourceOf) -> Response:
    """The rules in force with what they have done, and as a config has them: as values, and as YAML for an editor."""
    counted = await asked(source, "rules")
    config = await asked(source, "rules-get")
    entries_of(config, "rules")
    text = await asyncio.to_thread(_as_yaml, config["rules"])
    return json_response(
        {
            "rules": counted.get("rules"),
            "config": config["rules"],
            "temporary": config.get("temporary", []),
            "bridge": config.get("bridge", []),
            "source": config.get("source"),
            "text": text,
        }
    )


def _as_yaml(rules: list[dict[str, Any]]) -> str:
    return str(yaml.safe_dump({"rules": rules}, sort_keys=False, allow_unicode=True, width=120))


@router.get("/rules/vocabulary")
async def show_vocabulary() -> Response:
    """The words of rules, for an editor: the actions, and the keys and values of each."""
    return json_response(rule_vocabulary())


@router.put("/sources/{source}/rules")
async def set_rules(source: SourceOf, actor: ActorOf, body: RulesBody) -> Response:
    """Put rules in the place of those in force, until the config file is read again."""
    response = await actor.does(source, "rules-set", text=body.text, format=body.format, name=body.name)
    return json_response(response)


@router.post("/sources/{source}/rules/check")
async def check_rules(source: SourceOf, actor: ActorOf, body: RulesBody) -> Response:
    """Check rules as the proxy would; nothing changes. A script in them is run: so it takes the right to act."""
    response = await asked(source, "rules-check", text=body.text, format=body.format, name=body.name)
    return json_response(response)


@router.post("/sources/{source}/rules/try")
async def show_trial(source: SourceOf, actor: ActorOf, query: ListQueryOf, body: RulesBody) -> Response:
    """What rules would have done to what passed, as far as it is still here; in a process of its own.

    A script in them is run: so it takes the right to act.
    """
    if source.trial.locked():
        raise Problem(409, "rules are being tried on it already: wait until that is done")
    selection = frame_selection(source, query)
    entries = entries_for(source.ring, query)
    actor.log("rules-try", source, "begun")
    async with source.trial:
        return json_response(await try_rules(entries, selection, query, body.text, body.format))


@router.post("/sources/{source}/rules/{name}/mode")
async def switch_rule(
    source: SourceOf, name: Annotated[str, PathParameter(max_length=1000)], actor: ActorOf, body: ModeBody
) -> Response:
    """Have a rule act, or only count what it would do, until the config file is read again."""
    request = "rules-enforce" if body.mode == "enforce" else "rules-shadow"
    return json_response(await actor.does(source, request, rule=name))


@router.delete("/sources/{source}/rules/{name}")
async def remove_rule(
    source: SourceOf, name: Annotated[str, PathParameter(max_length=1000)], actor: ActorOf
) -> Response:
    """Remove a rule that is not temporary, until the config file is read again."""
    return json_response(await actor.does(source, "rules-remove", rule=name))


@router.get("/sources/{source}/rules/temporary")
async def list_temporary_rules(source: SourceOf) -> Response:
    """The temporary rules, with what they have done and when they end, in seconds since 1970."""
    counted = await asked(source, "rules")
    return json_response({"rules": [each for each in entries_of(counted, "rules") if each.get("ends_at") is not None]})


@router.post("/sources/{source}/rules/temporary")
async def add_temporary_rule(source: SourceOf, actor: ActorOf, body: TemporaryRuleBody) -> Response:
    """Put a rule before all others for some time; the answer has its name."""
    name, outcome = str(body.rule.get("name", ""))[:200], "refused"
    try:
        response = await asked(source, "rules-add", rule=body.rule, seconds=body.seconds)
        name, outcome = str(response.get("rule", name)), "done"
    finally:
        actor.log("rules-add", source, outcome, rule=name, seconds=body.seconds)
    return json_response(response)


@router.delete("/sources/{source}/rules/temporary/{name}")
async def end_temporary_rule(
    source: SourceOf, name: Annotated[str, PathParameter(max_length=1000)], actor: ActorOf
) -> Response:
    """End a temporary rule before its time."""
    return json_response(await actor.does(source, "rules-end", rule=name))
