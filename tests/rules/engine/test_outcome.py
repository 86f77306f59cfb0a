"""What becomes of a command, in a word."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.errors import Scope
from amqproxy.amqp091.methods import BasicPublish, TxSelect
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.rules.engine.outcome import OUTCOMES, OutcomeCounts, outcome
from amqproxy.rules.verdict import Answer, Close, HoldAction, Impairment, Insertion, MirroredCopy, Verdict
from tests.rules.scene import from_client

COMMAND = from_client(BasicPublish()).command
OTHER = from_client(TxSelect()).command


@pytest.mark.parametrize(
    ("verdict", "word"),
    [
        (Verdict(command=None, close=Close(Scope.CHANNEL, 403, "no")), "refused"),
        (Verdict(command=None, answer=Answer.NACK), "refused"),
        (Verdict(command=None, answer=Answer.RETURN), "refused"),
        (Verdict(command=None, answer=Answer.REJECT), "refused"),
        (Verdict(command=None, answer=Answer.REQUEUE), "refused"),
        (Verdict(command=None, answer=Answer.ACK), "dropped"),
        (Verdict(command=None), "dropped"),
        (Verdict(command=OTHER, hold=HoldAction("h", 1)), "held"),
        (Verdict(command=OTHER, delay=1), "delayed"),
        (Verdict(command=OTHER), "changed"),
        (Verdict(command=COMMAND, damage=((0, 1),)), "impaired"),
        (Verdict(command=COMMAND, behind=1), "impaired"),
        (Verdict(command=COMMAND, impairments=(Impairment(CLIENT),)), "impaired"),
        (Verdict(command=COMMAND, insertions=(Insertion(CLIENT, OTHER),)), "inserted"),
        (Verdict(command=COMMAND, mirrored=(MirroredCopy(OTHER),)), "mirrored"),
        (Verdict(command=COMMAND, shown=OTHER), "redacted"),
        (Verdict(command=COMMAND, logged=(("info", "x"),)), "logged"),
        (Verdict(command=COMMAND, tags=("x",)), "tagged"),
        (Verdict(command=COMMAND, is_final=True), "allowed"),
    ],
)
def test_what_becomes_of_it(verdict: Verdict, word: str) -> None:
    assert outcome(verdict, COMMAND) == word


def test_counts_are_sums_of_outcomes() -> None:
    counts = OutcomeCounts()
    for each in OUTCOMES:
        counts.of(each).number += 2
    counts.fail("how")
    assert (counts.hits, counts.shadow_hits, counts.errors) == (2 * (len(OUTCOMES) - 2), 2, 3)
    assert counts.verdicts["refused"] == 2
    assert counts.last_failure == "how"
    assert counts != OutcomeCounts()
