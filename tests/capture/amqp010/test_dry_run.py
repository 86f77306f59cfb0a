"""Dry run of a 0-10 connection."""

from __future__ import annotations

from pathlib import Path

from amqproxy.amqp010.commands import QueueDeclare
from amqproxy.amqp010.frame import Frame, encode_method
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.amqp010.dry_run import Amqp010DryRun
from amqproxy.configuration.config_file import parse
from amqproxy.rules.context import Client
from amqproxy.rules.engine.evaluator import RuleSet

RULES = '[[rules]]\nname = "r"\naction = "refuse"\nmatch = {method = "queue.declare"}\n'


def test_a_refusal_is_in_the_words_of_the_protocol() -> None:
    rules = RuleSet(parse(RULES, Path("rules.toml")).rules)
    dry_run = Amqp010DryRun(rules, Client.named(1, "a-b"), lambda: 0.0)
    frames = (Frame(encode_method(1, QueueDeclare(queue="q"))),)
    (found,) = dry_run.play(Amqp010DecodedFrames(1, 1, "a-b", "client", frames, command_ids=(0,)))
    assert found is not None
    assert found.method == "queue.declare"
    assert "execution.exception" in found.what[0]
