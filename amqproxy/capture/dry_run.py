"""Dry run of rules on the traffic in a capture.

Each command is evaluated as it was captured: a channel that a rule would have closed, or a reply that it would have
dropped, changes nothing for later commands.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from amqproxy.capture.connection_dry_run import ConnectionDryRun, DryRunResult
from amqproxy.capture.decoded import DecodedFrames
from amqproxy.capture.dialects import DRY_RUNS
from amqproxy.rules.context import Client
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.rule import Rule

SEED = 0
"""Seed of the random numbers, so that dry runs are reproducible."""


class DryRun:
    """Evaluates rules on the connections of a capture, each from its beginning."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = RuleSet(rules)
        self.commands = 0
        self._random = random.Random(SEED).random
        self._parts: dict[int, ConnectionDryRun] = {}

    def play(self, passed: DecodedFrames) -> Iterator[DryRunResult]:
        """Yield the results for the commands that these frames complete."""
        part = self._parts.get(passed.stream)
        if part is None:
            client = Client.named(passed.stream, passed.connection)
            part = self._parts[passed.stream] = DRY_RUNS[passed.protocol](self.rules, client, self._random)
        for result in part.play(passed):
            self.commands += 1
            if result is not None:
                yield result

    def end(self, stream: int) -> None:
        """Forget a connection; a later one in another capture may have its number."""
        self._parts.pop(stream, None)
