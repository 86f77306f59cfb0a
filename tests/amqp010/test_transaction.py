"""tx and dtx of one session: what may follow what."""

import pytest

from amqproxy.amqp010.errors import IllegalState, NotAllowed, ProtocolError
from amqproxy.amqp010.transaction import Transaction, TransactionMode


def act(transaction: Transaction, step: str) -> None:
    name, *words = step.split()
    xid, flags = (words[0] if words else ""), set(words[1:])
    match name:
        case "tx.select":
            transaction.select_tx(has_unaccepted="unaccepted" in words)
        case "tx.commit" | "tx.rollback":
            transaction.check_tx(name)
        case "dtx.select":
            transaction.select_dtx()
        case "dtx.start":
            transaction.start(xid, join="join" in flags, resume="resume" in flags)
        case "dtx.started":
            transaction.started(xid, int(words[1]))
        case "dtx.end":
            transaction.end(xid, fail="fail" in flags, suspend="suspend" in flags)
        case _:
            transaction.check_outcome(name, xid)


@pytest.mark.parametrize(
    "steps",
    [
        "tx.select, tx.commit, tx.rollback, tx.commit",
        "dtx.select, dtx.select, dtx.start a, dtx.end a, dtx.prepare a, dtx.commit a",
        "dtx.select, dtx.start a, dtx.end a suspend, dtx.start b, dtx.end b, dtx.start a resume, dtx.end a fail",
        "dtx.select, dtx.start a join, dtx.commit b, dtx.forget b, dtx.rollback b, dtx.end a",
        "dtx.commit a",
        "dtx.select, dtx.start a, dtx.started a 1, dtx.start b, dtx.started b 0, dtx.end b",
        "dtx.select, dtx.start a, dtx.end a, dtx.start b, dtx.started a 2, dtx.end b",
    ],
)
def test_what_may_be(steps: str) -> None:
    transaction = Transaction()
    for step in steps.split(", "):
        act(transaction, step)


@pytest.mark.parametrize(
    ("steps", "error", "section"),
    [
        ("tx.select, tx.select", IllegalState, "10.3 tx.select, exactly-once"),
        ("dtx.select, tx.select", IllegalState, "10.3 tx.select, no-dtx"),
        ("tx.select unaccepted", NotAllowed, "10.3 tx.select, explicit-accepts"),
        ("tx.select, dtx.select", IllegalState, "10.3 tx.select, no-dtx"),
        ("tx.commit", IllegalState, "10.3 tx.commit, select-required"),
        ("dtx.select, tx.rollback", IllegalState, "10.3 tx.rollback, select-required"),
        ("dtx.start a", IllegalState, "10.4 dtx.select"),
        ("tx.select, dtx.end a", IllegalState, "10.4 dtx.select"),
        ("dtx.select, dtx.start a join resume", NotAllowed, "10.4 dtx.start, join-and-resume"),
        ("dtx.select, dtx.start a, dtx.start b", IllegalState, "10.4 dtx.start, illegal-state"),
        ("dtx.select, dtx.end a", IllegalState, "10.4 dtx.end, not-associated"),
        ("dtx.select, dtx.start a, dtx.end b", IllegalState, "10.4 dtx.end, not-associated"),
        ("dtx.select, dtx.start a, dtx.end a fail suspend", NotAllowed, "10.4 dtx.end, suspend-and-fail"),
        ("dtx.select, dtx.start a, dtx.started a 1, dtx.end a", IllegalState, "10.4 dtx.end, not-associated"),
        ("dtx.select, dtx.start a, dtx.commit a", IllegalState, "10.4 dtx.commit, not-disassociated"),
        ("dtx.select, dtx.start a, dtx.prepare a", IllegalState, "10.4 dtx.prepare, not-disassociated"),
    ],
)
def test_what_may_not_be(steps: str, error: type[ProtocolError], section: str) -> None:
    *before, last = steps.split(", ")
    transaction = Transaction()
    for step in before:
        act(transaction, step)
    with pytest.raises(error) as caught:
        act(transaction, last)
    assert caught.value.section == section


def test_the_mode_is_known() -> None:
    transaction = Transaction()
    assert transaction.mode is TransactionMode.NONE
    act(transaction, "dtx.select")
    act(transaction, "dtx.start a")
    assert (transaction.mode, transaction.branch) == (TransactionMode.DTX, "a")
