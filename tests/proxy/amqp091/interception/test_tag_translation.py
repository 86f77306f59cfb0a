"""The numbers of two legs that differ, against a broker and a client that keep plain lists."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.proxy.amqp091.interception.tag_translation import (
    ConfirmTranslation,
    DeliveryTagTranslation,
    UnknownDeliveryTag,
)

# --- confirms


def test_a_publish_that_is_withheld_takes_a_number_of_the_clients_alone():
    numbers = ConfirmTranslation(2)
    numbers.withhold(3)
    assert numbers.translate(3, False, 1000) == [(4, False)]
    assert numbers.translate(4, False, 1000) == [(5, False)]
    assert numbers.translate(2, False, 1000) == [(2, False)]


def test_a_publish_of_our_own_takes_a_number_of_the_brokers_alone():
    numbers = ConfirmTranslation(0)
    numbers.insert(1)
    assert numbers.translate(1, False, 1000) == []
    assert numbers.translate(2, False, 1000) == [(1, False)]


def test_an_own_publish_at_the_end_does_not_hide_those_before_it():
    numbers = ConfirmTranslation(5)
    numbers.insert(6)
    assert numbers.translate(6, True, 1000) == [(5, True)]


def test_a_confirm_that_is_lost_is_not_made_good_by_a_later_one():
    numbers = ConfirmTranslation(1)
    numbers.lose(2, False, 1000)
    assert numbers.translate(4, True, 1000) == [(1, True), (3, False), (4, False)]


@pytest.mark.parametrize("multiple", [False, True])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_confirm_lost_from_before_the_difference_is_covered_by_the_next_multiple(number, multiple):
    numbers = ConfirmTranslation(3)
    numbers.withhold(4)
    numbers.lose(number, multiple, 5)
    assert numbers.translate(4, True, 5) == [(5, True)]


def test_publishes_from_before_the_difference_are_confirmed_together_only_once():
    numbers = ConfirmTranslation(3)
    numbers.insert(4)
    assert numbers.translate(3, True, 3) == [(3, True)]
    assert numbers.translate(4, True, 3) == []


@given(st.data())
def test_each_publish_is_confirmed_once_to_the_client_and_as_the_broker_did(data):
    start = data.draw(st.integers(0, 3))
    numbers = ConfirmTranslation(start)
    mine, theirs = start, start
    client_of = {number: number for number in range(1, start + 1)}  # by the broker's number; None: ours
    open_at_broker = set(client_of)
    confirmed: dict[int, str] = {}
    expected: dict[int, str] = {}
    lost: set[int] = set()
    for _ in range(data.draw(st.integers(0, 40))):
        action = data.draw(st.sampled_from(["pass", "withhold", "insert", "confirm", "confirm", "lose"]))
        if action == "pass":
            mine, theirs = mine + 1, theirs + 1
            client_of[theirs] = mine
            open_at_broker.add(theirs)
        elif action == "withhold":
            mine += 1
            numbers.withhold(mine)
        elif action == "insert":
            theirs += 1
            numbers.insert(mine + 1)
            client_of[theirs] = None
            open_at_broker.add(theirs)
        elif open_at_broker:
            number = data.draw(st.sampled_from(sorted(open_at_broker)))
            multiple = data.draw(st.booleans())
            settled = {each for each in open_at_broker if each <= number} if multiple else {number}
            open_at_broker -= settled
            own = {client_of[each] for each in settled} - {None}
            if action == "lose":
                numbers.lose(number, multiple, mine)
                lost |= {each for each in own if each > start}
                continue
            expected.update(dict.fromkeys(own, "ack"))
            sent_before = set(range(1, mine + 1))
            for last, is_multiple in numbers.translate(number, multiple, mine):
                covered = {each for each in sent_before if each <= last} if is_multiple else {last}
                assert not covered & lost
                assert is_multiple or last not in confirmed
                confirmed.update(dict.fromkeys(covered, "ack"))
            reached = {each for each in client_of.values() if each is not None}
            assert {each for each in confirmed if each in reached} >= set(expected) - lost
            still_open = {client_of[each] for each in open_at_broker} - {None}
            assert not set(confirmed) & still_open


# --- deliveries


def test_a_copy_takes_a_tag_of_the_clients_alone():
    numbers = DeliveryTagTranslation(0)
    numbers.receive(1, is_acked=True)
    assert numbers.hand_out(1) == 1
    assert numbers.hand_out(None) == 2
    numbers.receive(2, is_acked=True)
    assert numbers.hand_out(2) == 3
    assert numbers.settle(2, False) == []
    assert numbers.settle(3, True) == [(2, True)]


def test_what_is_withheld_is_not_acknowledged_with_what_comes_after():
    numbers = DeliveryTagTranslation(3)
    numbers.receive(4, is_acked=True)  # and kept back
    numbers.receive(5, is_acked=True)
    assert numbers.hand_out(5) == 4
    assert numbers.settle(4, True) == [(5, False)]


def test_tags_from_before_the_difference_are_the_same():
    numbers = DeliveryTagTranslation(3)
    numbers.receive(4, is_acked=True)
    numbers.hand_out(None)
    numbers.hand_out(4)
    assert numbers.settle(2, True) == [(2, True)]
    assert numbers.settle(5, True) == [(4, True)]


def test_a_tag_that_the_client_does_not_have():
    numbers = DeliveryTagTranslation(0)
    with pytest.raises(UnknownDeliveryTag):
        numbers.settle(1, False)
    numbers.receive(1, is_acked=False)
    assert numbers.hand_out(1) == 1
    with pytest.raises(UnknownDeliveryTag):
        numbers.settle(1, False)


def test_what_a_transaction_takes_back_is_open_again():
    numbers = DeliveryTagTranslation(0)
    numbers.receive(1, is_acked=True)
    numbers.hand_out(1)
    assert numbers.settle(1, False, may_be_taken_back=True) == [(1, False)]
    numbers.roll_back()
    assert numbers.settle(1, False, may_be_taken_back=True) == [(1, False)]
    numbers.commit()
    numbers.roll_back()
    with pytest.raises(UnknownDeliveryTag):
        numbers.settle(1, False)


def with_two_from_before_and_one_that_is_withheld() -> DeliveryTagTranslation:
    """The client has had 1 and 2 from before the difference and, as 3, the broker's 4; 3 of the broker's waits."""
    numbers = DeliveryTagTranslation(2)
    numbers.receive(3, is_acked=True)
    numbers.receive(4, is_acked=True)
    assert numbers.hand_out(4) == 3
    return numbers


def test_what_is_settled_from_before_the_difference_follows_with_the_next_of_that_kind() -> None:
    numbers = with_two_from_before_and_one_that_is_withheld()
    assert numbers.settle(3, True) == [(4, False)]  # with `multiple`, the broker would settle its 3 too
    assert numbers.hand_out(3) == 4
    assert numbers.settle(4, False) == [(3, True)]
    numbers.receive(5, is_acked=True)
    numbers.hand_out(5)
    assert numbers.settle(5, False) == [(5, False)]


def test_what_is_acknowledged_from_before_the_difference_is_not_rejected_with_later_deliveries() -> None:
    numbers = with_two_from_before_and_one_that_is_withheld()
    assert numbers.settle(3, True) == [(4, False)]
    numbers.hand_out(3)
    numbers.receive(5, is_acked=True)
    numbers.hand_out(5)
    assert numbers.settle(5, True, kind="nack") == [(3, False), (5, False)]
    numbers.receive(6, is_acked=True)
    numbers.hand_out(6)
    assert numbers.settle(0, True, kind="nack") == [(6, False)]
    numbers.receive(7, is_acked=True)
    numbers.hand_out(7)
    assert numbers.settle(0, True) == [(0, True)]


def test_a_settlement_of_a_copy_alone_settles_what_is_before_it_with_the_next() -> None:
    numbers = DeliveryTagTranslation(1)
    assert numbers.hand_out(None) == 2
    assert numbers.settle(2, True) == []
    numbers.receive(2, is_acked=True)
    numbers.hand_out(2)
    assert numbers.settle(3, False) == [(2, True)]


def test_what_was_owed_before_a_transaction_is_owed_again_when_it_is_rolled_back() -> None:
    numbers = with_two_from_before_and_one_that_is_withheld()
    numbers.settle(3, True)
    numbers.hand_out(3)
    for _ in range(2):
        assert numbers.settle(4, False, may_be_taken_back=True) == [(3, True)]
        numbers.roll_back()
    assert numbers.settle(4, False, may_be_taken_back=True) == [(3, True)]
    numbers.commit()
    numbers.receive(5, is_acked=True)
    numbers.hand_out(5)
    assert numbers.settle(5, False) == [(5, False)]


@given(st.data())
def test_the_broker_receives_settlements_of_the_client_only(data):
    """Deliveries from before the difference, of which nothing is known, may be settled late, but never wrongly."""
    start = data.draw(st.integers(0, 3))
    numbers = DeliveryTagTranslation(start)
    theirs = start
    at_broker = data.draw(st.sets(st.integers(1, start))) if start else set()
    kept_back: list[int] = []
    at_client: dict[int, int | None] = {tag: tag for tag in at_broker}
    settled_by: dict[int, str] = {}
    owed: set[int] = set()
    for _ in range(data.draw(st.integers(0, 40))):
        action = data.draw(st.sampled_from(["deliver", "withhold", "copy", "late", "settle", "settle", "all", "own"]))
        if action in ("deliver", "withhold"):
            theirs += 1
            at_broker.add(theirs)
            numbers.receive(theirs, is_acked=True)
            if action == "deliver":
                at_client[numbers.hand_out(theirs)] = theirs
            else:
                kept_back.append(theirs)
        elif action == "copy":
            at_client[numbers.hand_out(None)] = None
        elif action == "late" and kept_back:
            late = kept_back.pop(data.draw(st.integers(0, len(kept_back) - 1)))
            at_client[numbers.hand_out(late)] = late
        elif action == "own" and kept_back:
            settled = kept_back.pop()
            numbers.settle_own(settled)
            at_broker.remove(settled)
        elif action in ("settle", "all"):
            multiple = action == "all" or data.draw(st.booleans())
            kind = data.draw(st.sampled_from(["ack", "nack"]))
            if action == "all":
                tag, taken = 0, set(at_client)
            elif at_client:
                tag = data.draw(st.sampled_from(sorted(at_client)))
                taken = {each for each in at_client if each <= tag} if multiple else {tag}
            else:
                continue
            expected = {at_client.pop(each) for each in taken} - {None}
            settled_by.update(dict.fromkeys(expected, kind))
            confirmed: set[int] = set()
            for number, is_multiple in numbers.settle(tag, multiple, kind=kind):
                assert number in at_broker or (number, is_multiple) == (0, True)
                covered = {each for each in at_broker if each <= (number or theirs)} if is_multiple else {number}
                assert not covered & confirmed
                assert all(settled_by[each] == kind for each in covered)
                confirmed |= covered
                at_broker -= covered
            owed = (owed | expected) - confirmed
            assert confirmed <= set(settled_by)
            assert all(each <= start for each in owed)


# --- bounds


def test_confirms_sent_one_by_one_are_not_kept_for_ever(monkeypatch):
    monkeypatch.setattr("amqproxy.proxy.amqp091.interception.tag_translation.MAX_OPEN", 10)
    numbers = ConfirmTranslation(2)
    numbers.withhold(3)
    for number in range(3, 100):
        assert numbers.translate(number, False, 10_000) == [(number + 1, False)]
    assert numbers.translate(101, True, 1000) == [(102, True)]


def test_confirms_that_are_lost_are_not_remembered_for_ever(monkeypatch):
    monkeypatch.setattr("amqproxy.proxy.amqp091.interception.tag_translation.MAX_OPEN", 10)
    numbers = ConfirmTranslation(0)
    for number in range(1, 100):
        numbers.lose(number, False, 10_000)
    assert numbers.translate(101, True, 1000) == [(100, False), (101, False)]


def test_a_transaction_cannot_be_as_long_as_one_likes(monkeypatch):
    monkeypatch.setattr("amqproxy.proxy.amqp091.interception.tag_translation.MAX_OPEN", 10)
    numbers = DeliveryTagTranslation(0)
    for tag in range(1, 12):
        numbers.receive(tag, is_acked=True)
        numbers.hand_out(tag)
        if tag <= 10:
            numbers.settle(tag, False, may_be_taken_back=True)
    with pytest.raises(OverflowError):
        numbers.settle(11, False, may_be_taken_back=True)


def test_what_is_confirmed_one_by_one_moves_the_others_seldom() -> None:
    """Every second publish is withheld, and the broker confirms the rest each alone."""
    moved = []
    for count in (1000, 4000):
        numbers = ConfirmTranslation(0)
        for number in range(2, 2 * count, 2):
            numbers.withhold(number)
        numbers._starts = starts = _CountingList(numbers._starts)
        for number in range(1, count):
            assert numbers.translate(number, False, 10_000) == [(2 * number - 1, False)]
        moved.append(starts.moved)
    assert moved[1] < 5 * moved[0]


class _CountingList(list[int]):
    """Counts the entries that are moved since others before them are deleted."""

    moved = 0

    def __delitem__(self, which: Any) -> None:
        super().__delitem__(which)
        self.moved += len(self)


@pytest.mark.parametrize("tag", [2**63, 2**64 - 1])
@pytest.mark.parametrize("has_lost", [True, False])
@pytest.mark.parametrize("loses", [True, False])
def test_a_confirm_of_more_than_there_is_costs_what_there_is(has_lost: bool, loses: bool, tag: int) -> None:
    numbers = ConfirmTranslation(2)
    numbers.withhold(4, is_answered=not has_lost)
    if loses:
        numbers.lose(tag, True, 6)
        assert numbers.translate(6, True, 7) == [(7, False)]
        return
    assert numbers.translate(tag, False, 6) == []
    expected = [(3, True), (5, False), (6, False)] if has_lost else [(6, True)]
    assert numbers.translate(tag, True, 6) == expected
    assert numbers.translate(tag, True, 6) == []
    assert numbers.translate(6, False, 7) == [(7, False)]


def test_confirms_of_all_before_go_through_each_number_once() -> None:
    """The broker confirms from the last on, each alone, and now and then all up to one from the first on."""
    numbers = ConfirmTranslation(0)
    numbers.withhold(1)
    for number in range(2000, 1000, -1):
        numbers.translate(number, False, 2001)
    numbers._settled = settled = _CountingSet(numbers._settled)
    for number in range(1, 1000):
        assert numbers.translate(number, True, 2001) == [(number + 1, True)]
    assert numbers._settled is settled
    assert settled.gone_through == 0


class _CountingSet(set[int]):
    """Counts the entries that are gone through."""

    gone_through = 0

    def __iter__(self) -> Any:
        self.gone_through += len(self)
        return super().__iter__()


@pytest.mark.parametrize("tag", [2**63, 2**64 - 1])
def test_a_settlement_of_more_than_there_is_costs_nothing(tag: int) -> None:
    numbers = DeliveryTagTranslation(0)
    numbers.receive(1, is_acked=True)
    numbers.hand_out(1)
    with pytest.raises(UnknownDeliveryTag):
        numbers.settle(tag, True)
    assert numbers.open == 1


def test_settlements_of_all_before_go_through_each_delivery_once() -> None:
    numbers = DeliveryTagTranslation(0)
    for tag in range(1, 1001):
        numbers.receive(tag, is_acked=True)
        numbers.hand_out(tag)
    steps = 0
    up_to = numbers._up_to

    def counted(tag: int) -> Any:
        nonlocal steps
        for each in up_to(tag):
            steps += 1
            yield each

    numbers._up_to = counted  # type: ignore[method-assign]
    for tag in range(1, 1001, 3):
        assert numbers.settle(tag, True) == [(tag, True)]
    assert steps == 1000
