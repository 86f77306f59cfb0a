"""The `log` action: writes a line about a command to the log."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

from msgspec.structs import replace

from amqproxy.rules.context import CommandContext
from amqproxy.rules.matching.templates import Template
from amqproxy.rules.rule import Rule, RuleState
from amqproxy.rules.verdict import Stage, Verdict

MAX_TEXT = 4096
"""Longest line, in characters."""


class Log(Rule, frozen=True, tag="log"):
    """Log a template text filled from the command; `{rule}` is the name of the rule.

    Values covered by a `redact` rule are masked here too, wherever that rule stands.
    """

    text: str = "{sender} {method}"
    level: Literal["debug", "info", "warning", "error"] = "info"

    changes_method = False
    fails_open = True
    sees_redacted = True

    def __post_init__(self) -> None:
        _ = self._template

    @property
    def needs(self) -> Stage:
        return self._template.needs

    @cached_property
    def _template(self) -> Template:
        return Template(self.text, {"rule": self.name})

    def decide(self, context: CommandContext, memory: RuleState) -> Verdict:
        text = self._template.fill(context if context.shown is None else replace(context, command=context.shown))
        if len(text) > MAX_TEXT:
            text = text[: MAX_TEXT - 1] + "…"
        return Verdict(command=context.command, logged=((self.level, text),))
