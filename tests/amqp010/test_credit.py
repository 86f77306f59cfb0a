"""Credit: given, spent, given back by completion, and ended."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from amqproxy.amqp010 import credit as module
from amqproxy.amqp010.credit import INFINITE, Credit
from amqproxy.amqp010.domains import CreditUnit, FlowMode
from amqproxy.amqp010.errors import IllegalState, NotAllowed, ResourceLimitExceeded
from tests.example_count import example_count

MESSAGE, BYTE = CreditUnit
CREDIT, WINDOW = FlowMode


def with_credit(messages: int | None, size: int | None, mode: FlowMode = CREDIT) -> Credit:
    made = Credit()
    made.set_mode(mode)
    made.add(MESSAGE, messages)
    made.add(BYTE, size)
    return made


def test_a_subscription_begins_with_a_window_and_no_credit() -> None:
    credit = Credit()
    assert (credit.mode, credit.messages, credit.size) == (WINDOW, 0, 0)
    with pytest.raises(NotAllowed, match="5 bytes where there is credit for 0 messages and 0 bytes") as caught:
        credit.spend(0, 5)
    assert caught.value.section == "10.2 message.set-flow-mode, byte-accounting"


def test_messages_and_bytes_are_spent() -> None:
    credit = with_credit(2, 10)
    credit.spend(0, 6)
    assert (credit.messages, credit.size) == (1, 4)
    with pytest.raises(NotAllowed):
        credit.spend(1, 5)
    assert (credit.messages, credit.size) == (0, 0)


@pytest.mark.parametrize("amount", [None, INFINITE])
def test_a_flow_can_lift_a_limit(amount: int | None) -> None:
    credit = with_credit(amount, amount)
    assert credit.is_unlimited
    credit.add(MESSAGE, 5)
    for position in range(9):
        credit.spend(position, 1000)
    assert credit.is_unlimited


def test_only_the_first_fragment_needs_credit_for_a_message() -> None:
    credit = with_credit(1, 10)
    credit.spend(0, 4)
    credit.spend(1, 4, is_first=False)
    assert (credit.messages, credit.size) == (0, 2)


def test_completion_gives_back_what_a_window_lent() -> None:
    credit = with_credit(3, 30, WINDOW)
    for position, size in enumerate((10, 5, 15)):
        credit.spend(position, size)
    credit.completed(range(1))
    assert (credit.messages, credit.size) == (1, 10)
    credit.completed(range(-5, 1000))
    assert (credit.messages, credit.size) == (3, 30)
    credit.completed(range(3))
    assert (credit.messages, credit.size) == (3, 30), "once"


def test_completion_gives_nothing_back_in_credit_mode() -> None:
    credit = with_credit(3, 30)
    credit.spend(0, 10)
    credit.completed(range(1))
    assert (credit.messages, credit.size) == (2, 20)


def test_a_stop_ends_credit_when_it_completes() -> None:
    credit = with_credit(3, None)
    credit.stop(7)
    credit.spend(0, 10)  # its sender does not know yet
    credit.add(MESSAGE, 5)
    credit.stopped(7)
    assert (credit.messages, credit.size) == (5, 0)
    credit.stopped(7)
    assert credit.messages == 5


def test_each_stop_leaves_what_came_after_it() -> None:
    credit = with_credit(3, 3)
    credit.stop(7)
    credit.add(MESSAGE, None)
    credit.stop(9)
    credit.add(BYTE, 4)
    credit.stopped(7)
    assert (credit.messages, credit.size) == (None, 4)
    credit.stopped(9)
    assert (credit.messages, credit.size) == (0, 4)


def test_the_mode_cannot_change_while_there_is_credit() -> None:
    credit = with_credit(3, 0)
    with pytest.raises(IllegalState, match="credit for 3 messages and 0 bytes") as caught:
        credit.set_mode(WINDOW)
    assert caught.value.section == "10.2 message.set-flow-mode, mode-switching"
    assert credit.mode is WINDOW
    credit.set_mode(99)  # no such mode: found elsewhere
    assert credit.mode is WINDOW


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PENDING", 2)
    monkeypatch.setattr(module, "MAX_IN_FLIGHT", 3)
    credit = with_credit(100, 100, WINDOW)
    credit.stop(0)
    credit.stop(1)
    with pytest.raises(ResourceLimitExceeded):
        credit.stop(2)
    for position in range(5):
        credit.spend(position, 1)
    assert credit.is_unlimited, "no longer counted"


@given(st.lists(st.integers(0, 20), max_size=20), st.integers(0, 200), st.integers(0, 25))
def test_what_is_sent_stays_within_credit(sizes: list[int], total: int, messages: int) -> None:
    credit = with_credit(messages, total)
    sent = 0
    for position, size in enumerate(sizes):
        if position >= messages or sent + size > total:
            with pytest.raises(NotAllowed):
                credit.spend(position, size)
            return
        credit.spend(position, size)
        sent += size
    assert (credit.messages, credit.size) == (messages - len(sizes), total - sent)


class ServerThatKeepsToItsCredit(RuleBasedStateMachine):
    """A server that knows of a client's commands later than the watcher, and never oversteps, is never blamed."""

    def __init__(self) -> None:
        super().__init__()
        self.watched = Credit()
        self.watched.set_mode(CREDIT)
        self.messages = 0
        self.on_their_way: list[tuple[str, int]] = []
        self.completions: list[int] = []
        self.sent = 0

    @rule(count=st.integers(0, 5))
    def flow(self, count: int) -> None:
        self.watched.add(BYTE, None)
        self.watched.add(MESSAGE, count)
        self.on_their_way.append(("flow", count))

    @rule()
    def stop(self) -> None:
        self.watched.stop(self.sent)
        self.on_their_way.append(("stop", self.sent))
        self.sent += 1

    @precondition(lambda self: self.on_their_way)
    @rule()
    def arrive(self) -> None:
        what, value = self.on_their_way.pop(0)
        if what == "flow":
            self.messages += value
        else:
            self.messages = 0
            self.completions.append(value)

    @precondition(lambda self: self.completions)
    @rule()
    def complete(self) -> None:
        self.watched.stopped(self.completions.pop(0))

    @precondition(lambda self: self.messages)
    @rule()
    def send(self) -> None:
        self.messages -= 1
        self.sent += 1
        self.watched.spend(self.sent, 10)


TestServerThatKeepsToItsCredit = ServerThatKeepsToItsCredit.TestCase
TestServerThatKeepsToItsCredit.settings = settings(deadline=None, max_examples=example_count(50))
