"""The corpus of programs that break on an upgrade to RabbitMQ 4.3, or do not: every break is found, none invented."""

from __future__ import annotations

import pytest

from amqproxy.capture.decode import read_decoded
from amqproxy.cli.readiness import add_captures
from amqproxy.rabbitmq.incompatibility import Level
from amqproxy.rabbitmq.profile import PROFILES
from amqproxy.readiness.readiness import Readiness
from amqproxy.readiness.uses import Uses
from tests.readiness.upgrade_programs import BREAKING, FOLDER, HARMLESS, PROGRAMS, Program

TARGET = PROFILES["4.3"].switching({"transient_nonexcl_queues": False})


def readiness_of(program: Program) -> Readiness:
    uses = Uses(TARGET)
    assert add_captures(uses, read_decoded(FOLDER / f"{program}.pcapng.gz"))
    return uses.readiness()


@pytest.mark.parametrize("program", BREAKING, ids=str)
def test_a_program_that_breaks_is_found_and_named(program: Program) -> None:
    report = readiness_of(program)
    found = report.of(Level.BREAKS)
    assert {each.kind for each in found} == program.breaks
    assert all(str(each.client).startswith(program.product) for each in found), found
    assert {each.user for each in found} == {"guest"}
    assert report.unknown == 0


@pytest.mark.parametrize("program", HARMLESS, ids=str)
def test_a_program_that_works_is_ready(program: Program) -> None:
    report = readiness_of(program)
    assert (report.of(Level.BREAKS), report.is_ready) == ([], True)
    assert report.unknown == 0


def test_the_corpus_is_complete_and_small() -> None:
    assert (len(BREAKING), len(HARMLESS)) == (20, 20)
    files = {each.name: each.stat().st_size for each in FOLDER.iterdir()}
    assert set(files) == {f"{each}.pcapng.gz" for each in PROGRAMS}
    assert sum(files.values()) < 400_000
