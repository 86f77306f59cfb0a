"""Dry run of a 0-9-1 connection."""

from __future__ import annotations

from pathlib import Path

from amqproxy.amqp091.frame import Frame, encode_method
from amqproxy.amqp091.methods import QueueDeclare
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.amqp091.dry_run import Amqp091DryRun
from amqproxy.configuration.config_file import parse
from amqproxy.rules.context import Client
from amqproxy.rules.engine.evaluator import RuleSet

RULES = '[[rules]]\nname = "r"\naction = "refuse"\nmatch = {method = "queue.declare"}\n'


def test_a_connection_has_one_protocol() -> None:
    rules = RuleSet(parse(RULES, Path("rules.toml")).rules)
    dry_run = Amqp091DryRun(rules, Client.named(1, "a-b"), lambda: 0.0)
    frames = (Frame(encode_method(1, QueueDeclare(queue="q"))),)
    (found,) = dry_run.play(Amqp091DecodedFrames(1, 1, "a-b", "client", frames))
    assert found is not None
    assert (found.method, found.channel, found.rules) == ("queue.declare", 1, ("r",))
    assert list(dry_run.play(Amqp010DecodedFrames(1, 1, "a-b", "client", (), command_ids=()))) == []
