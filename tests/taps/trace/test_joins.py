"""A reader that joins in the middle, and misses frames, claims nothing false, and misses nothing that a snapshot tells.

What is left unknown, by necessity: what was not seen; the outcomes of messages that were open when frames were missed,
which may be among those frames; and what a snapshot does not have, since a transaction was under way when it was made.
Every other message is known as well as to a reader that has seen all.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from tests.example_count import example_count
from tests.taps.trace import programs
from tests.taps.trace.amqp010.programs import Program
from tests.taps.trace.joins import Joined, facts, read, shares
from tests.taps.trace.simulation import Passed

PROGRAMS = 120
SOAKED = 10_000
STEPS = (1, 1_000_000, 1_000_000_000, 5_000_000_000)
"""Nanoseconds between two frames: some findings are about what takes seconds, or minutes."""

NOW = 1_700_000_000_000_000_000


def of_091(seed: int) -> list[Passed] | None:
    simulation = programs.simulated(programs.random_program(seed))
    return simulation.passed if programs.is_clear(simulation) else None


def of_010(seed: int) -> list[Passed] | None:
    return Program(seed).passed


PROTOCOLS = pytest.mark.parametrize("program", [of_091, of_010])


def timed(random: Random, passed: list[Passed], *, is_distinct: bool) -> list[Passed]:
    """The same frames, each with a time of its own, or several of one read with the same."""
    step = random.choice(STEPS)
    return [
        each._replace(ts_ns=NOW + (place if is_distinct else each.ts_ns) * step) for place, each in enumerate(passed)
    ]


def false_findings(run: Joined) -> list[str]:
    """Findings of a kind that the reader who has seen all did not make by then."""
    first: dict[tuple[str, int | None], int] = {}
    for each in run.whole.findings:
        first.setdefault((each.kind, each.channel), each.ts_ns)
    return [
        f"{each.kind}: {each.text}"
        for each in run.joined.findings
        if first.get((each.kind, each.channel), each.ts_ns + 1) > each.ts_ns
    ]


def check(program: Callable[[int], list[Passed] | None], seeds: range) -> tuple[int, int, int]:
    """Return the numbers of programs, of messages after a snapshot, and of those that were open at a loss."""
    count = messages = at_losses = 0
    for seed in seeds:
        passed = program(seed)
        if not passed:
            continue
        count += 1
        random = Random(seed)
        is_distinct = random.random() < 0.5
        passed = timed(random, passed, is_distinct=is_distinct)
        run = read(random, passed, is_of_proxy=random.random() < 0.5)
        assert not facts(run.joined.events) - facts(run.whole.events), seed
        assert not false_findings(run), seed
        if is_distinct:
            found = shares(run, passed)
            assert not found.missing, seed
            messages += found.all
            at_losses += found.at_losses
    return count, messages, at_losses


@PROTOCOLS
def test_no_claim_and_no_finding_is_false_and_no_outcome_missing(
    program: Callable[[int], list[Passed] | None], capsys: pytest.CaptureFixture[str]
) -> None:
    count, messages, at_losses = check(program, range(example_count(PROGRAMS)))
    assert count
    if count > PROGRAMS / 2:
        assert 0 < at_losses < messages / 2


@pytest.mark.parametrize(
    ("program", "seed"),
    [
        # Two channels of one number, of which the reader joins the openings; confirms that stall after a reopening.
        (of_091, 5_000_918),
        (of_091, 6_002_238),
        # A message.cancel that the broker completes after a later message.subscribe.
        (of_010, 6_003_116),
        # Losses of one direction only, from the first frame on.
        (of_091, 5_004_441),
        (of_010, 5_004_827),
        (of_091, 5_016_743),
    ],
)
def test_programs_in_which_faults_were_found(program: Callable[[int], list[Passed] | None], seed: int) -> None:
    assert check(program, range(seed, seed + 1))[0]


@pytest.mark.soak
@pytest.mark.timeout(7200)
@PROTOCOLS
def test_the_same_of_very_many_programs(
    program: Callable[[int], list[Passed] | None], record_property: Callable[[str, object], None]
) -> None:
    count, messages, at_losses = 0, 0, 0
    start = PROGRAMS
    while count < SOAKED:
        found = check(program, range(start, start + 500))
        start += 500
        count, messages, at_losses = count + found[0], messages + found[1], at_losses + found[2]
    record_property("programs", count)
    record_property("messages", messages)
    record_property("open at a loss", at_losses)
