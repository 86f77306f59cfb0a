"""Evaluates rules on commands of clients and the broker at given times, from a table: how limits and faults are tested.

    0.5  a1 basic.publish exchange=x size=10   nacked
    1    a1 < basic.deliver                    passes
    2    a1 closed
    3    a over

A line has the time in seconds, the session (a letter) and its channel, perhaps `<` where the broker sends, the method
with its fields (as in `tests.transcripts.lines`), and behind two spaces or more the outcome; `size` is that of a body
of zeros. A channel is `closed`, a session `over`, and it can `start`. Users are named as their sessions: `a`. A line
that begins with `;` goes on with the one before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import BODY, HEADER, HEARTBEAT, Frame, encode_frame, encode_method
from amqproxy.amqp091.methods import Method
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.rules.context import ChannelInfo, Client, CommandContext
from amqproxy.rules.engine.evaluator import RuleEvaluator, RuleSet
from amqproxy.rules.rule import Rule
from amqproxy.rules.verdict import Answer, Impairment, Insertion, Stage, Verdict
from tests.transcripts.lines import parse_method

CAPABILITIES = {"connection.blocked": True, "consumer_cancel_notify": True}


class Timeline:
    """Some sessions under some rules. `facts` are those of every channel, `chances` what is drawn, over and over."""

    def __init__(
        self, *rules: Rule, facts: ChannelInfo | None = None, chances: Iterable[float] = (0.5,), **client: Any
    ) -> None:
        self.ruleset = RuleSet(rules)
        self.evaluators: dict[str, RuleEvaluator] = {}
        self._facts = facts or ChannelInfo()
        self._chances = list(chances)
        self._drawn = 0
        self._client = {"vhost": "/", "properties": {"capabilities": CAPABILITIES}} | client

    def evaluator(self, session: str) -> RuleEvaluator:
        if session not in self.evaluators:
            client = Client(session=ord(session), user=session, address=f"10.0.0.{ord(session)}", **self._client)
            self.evaluators[session] = self.ruleset.evaluator(client)
        return self.evaluators[session]

    def random(self) -> float:
        self._drawn += 1
        return self._chances[(self._drawn - 1) % len(self._chances)]

    def play(self, table: str) -> None:
        """Play all lines, and hold what became of each to what was to become of it."""
        lines: list[str] = []
        for line in map(str.strip, table.splitlines()):
            if line.startswith(";"):
                lines[-1] += line
            elif line:
                lines.append(line)
        played = []
        for line in lines:
            step, outcome = self._play(line)
            played.append(f"{step}   {outcome}".rstrip())
        assert played == [_tidy(line) for line in lines]

    def _play(self, line: str) -> tuple[str, str]:
        step = _tidy(line).partition("   ")[0]
        time, who, *words = step.split()
        evaluator, now = self.evaluator(who[0]), float(time)
        if words == ["closed"]:
            evaluator.channel_closed(int(who[1:]))
            return step, ""
        if words == ["over"]:
            evaluator.session_over()
            del self.evaluators[who[0]]
            return step, ""
        if words == ["start"]:
            found = evaluator.start(now=now, time=now, random=self.random, is_open=True)
            return step, "; ".join(map(impaired, found)) or "passes"
        sender = SERVER if words[0] == "<" else CLIENT
        command = said_by(int(who[1:] or 0), *words[words[0] == "<" :])
        frame = command.frames[0]
        if evaluator.stage(sender, frame, self._facts) is Stage.NOTHING:
            return step, "passes"
        context = CommandContext(
            sender=sender,
            command=command,
            client=evaluator.client,
            channel=msgspec.structs.replace(self._facts, number=command.channel),
            now=now,
            time=now,
            random=self.random,
        )
        return step, outcome(command, evaluator.evaluate(context))


def _tidy(line: str) -> str:
    step, _, rest = re.sub(r"\s{2,}", "   ", re.sub(r"^(\S+)\s+", r"\1 ", line)).partition("   ")
    return f"{step}   {rest}".rstrip()


def said_by(channel: int, name: str, *fields: str) -> Command:
    """The command as it was received, whole."""
    if name == "heartbeat":
        return Command.received([Frame(encode_frame(HEARTBEAT, 0, b""))])
    sizes = [int(field.removeprefix("size=")) for field in fields if field.startswith("size=")]
    size = sizes[0] if sizes else 0
    method = parse_method(name, [field for field in fields if not field.startswith("size=")])
    frames = [Frame(encode_method(channel, method))]
    if method.carries_content:
        frames.append(Frame(encode_frame(HEADER, channel, ContentHeader(size).encode())))
        if size:
            frames.append(Frame(encode_frame(BODY, channel, bytes(size))))
    return Command.received(frames)


def outcome(command: Command, verdict: Verdict) -> str:
    """A verdict in words."""
    words = []
    if verdict.delay:
        words.append(f"waits {verdict.delay:.6g}")
    if verdict.behind:
        words.append(f"behind {verdict.behind}")
    if verdict.close is not None:
        words.append(f"closes {verdict.close.scope} {verdict.close.code}")
    elif verdict.command is None:
        words.append({Answer.NOTHING: "dropped"}.get(verdict.answer, str(verdict.answer)))
    elif verdict.command is not command:
        words.append(f"becomes {_in_words(verdict.command.method)}")
    words += [f"damaged at {place} by {mask}" for place, mask in verdict.damage]
    words += [_inserted(each) for each in verdict.insertions]
    words += [impaired(each) for each in verdict.impairments]
    return "; ".join(words) or "passes"


def _inserted(insertion: Insertion) -> str:
    ahead = " ahead" if insertion.is_ahead else ""
    after = f" after {insertion.after:.6g}" if insertion.after else ""
    size = f" size={insertion.command.body_size}" if insertion.command.body_size else ""
    return f"{insertion.to}{ahead}{after}: {_in_words(insertion.command.method)}{size}"


def _in_words(method: Method) -> str:
    """The method, and of its fields those that are not as they usually are."""
    usual = type(method)()
    fields = [
        f"{name}={str(value).lower() if isinstance(value, bool) else value}"
        for name in method.__struct_fields__
        if (value := getattr(method, name)) != getattr(usual, name) and name not in ("reason",)
    ]
    return " ".join([method.name, *fields])


def impaired(impairment: Impairment) -> str:
    """An impairment, and of its fields those that it has, in words."""
    lasting = "" if impairment.duration is None else f" for {impairment.duration:.6g}"
    fields = [
        f" {name}={getattr(impairment, name):.6g}"
        for name in impairment.__struct_fields__
        if name not in ("to", "duration", "by") and getattr(impairment, name)
    ]
    return f"{type(impairment).__name__.lower()}{''.join(fields)} to {impairment.to}{lasting}"
