"""What is held is counted, and given back, whatever happens."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from amqproxy.rules.limits.resource_counts import (
    MAX_UNANSWERED,
    CountedResource,
    ExpectedAnswer,
    GroupTotals,
    Request,
    ResourceCounts,
)


def test_what_goes_with_a_channel_and_what_goes_with_the_session() -> None:
    stock, inventory = GroupTotals(), ResourceCounts()
    total = stock.total("group")
    inventory.hold(0, "connection", total)
    inventory.hold(1, "x", total)
    inventory.hold(1, "x", total)
    inventory.hold(2, "x", total)
    assert (total.count, len(inventory), len(stock)) == (3, 3, 1)
    inventory.channel_closed(1)
    inventory.release(2, "y")
    assert total.count == 2
    inventory.session_over()
    assert (total.count, len(inventory), len(stock)) == (0, 0, 0)


def test_what_was_asked_for_counts_until_it_is_released() -> None:
    stock, inventory = GroupTotals(), ResourceCounts()
    total = stock.total("group")
    for label in ("", "x", ""):
        inventory.ask(1, label, total)
    assert total.count == 3
    assert inventory.receive(1, "y") is None
    held = inventory.receive(1, "amq.gen-1")
    assert held is not None
    inventory.keep(0, "amq.gen-1", held)
    inventory.channel_closed(1)
    assert total.count == 1
    inventory.release(0, "amq.gen-1")
    assert not len(stock)


def test_what_has_a_name_counts_once() -> None:
    stock = GroupTotals()
    total = stock.total("group")
    inventories = [ResourceCounts() for _ in range(3)]
    for inventory in inventories:
        inventory.hold(0, "q", total, "q")
    assert total.count == 1
    assert "q" in total
    inventories[0].session_over()
    assert total.count == 1
    total.drop("q", stock.next_age())
    assert total.count == 0
    inventories[0].hold(0, "q", stock.total("group"), "q")
    for inventory in inventories[1:]:
        inventory.session_over()
    assert stock.total("group").count == 1, (
        "those who held what was there before give back nothing of what is there now"
    )


def test_it_gets_its_name_later() -> None:
    stock, inventory = GroupTotals(), ResourceCounts()
    total = stock.total("group")
    inventory.ask(1, "", total)
    held = inventory.receive(1, "amq.gen-1")
    assert held is not None
    inventory.keep(0, "amq.gen-1", held.renamed("amq.gen-1"))
    assert total.count == 1
    assert "amq.gen-1" in total


def test_what_is_held_again_outlives_an_earlier_delete() -> None:
    stock, inventory = GroupTotals(), ResourceCounts()
    total = stock.total("group")
    inventory.hold(0, "q", total, "q")
    deleted_at = stock.next_age()
    inventory.keep(0, "q", CountedResource(total, "q"))
    inventory.release(0, "q", deleted_at)
    total.drop("q", deleted_at)
    assert (total.count, inventory.holds(0, "q")) == (1, True)


def test_what_is_asked_for_with_line_breaks_is_given_without() -> None:
    stock, inventory = GroupTotals(), ResourceCounts()
    inventory.ask(1, "a\nb", stock.total("group"))
    inventory.ask(1, "\r\n", stock.total("group"))
    assert inventory.receive(1, "ab") is not None
    assert inventory.receive(1, "amq.gen-1") is not None


def test_answers_are_about_what_was_asked_first() -> None:
    inventory = ResourceCounts()
    for queue in ("x", "y"):
        inventory.expect(1, ExpectedAnswer(Request.DELETE, queue))
    proven = [inventory.deletes_proven(1, Request.DELETE) for _ in range(3)]
    assert [[each.queue for each in answers] for answers in proven] == [["x"], ["y"], []]
    inventory.expect(1, ExpectedAnswer(Request.DELETE, "z"))
    inventory.channel_closed(1)
    assert inventory.deletes_proven(1, Request.DELETE) == []


def test_a_later_answer_proves_deletes_that_have_none() -> None:
    inventory = ResourceCounts()
    inventory.expect(1, ExpectedAnswer(Request.DECLARE))
    inventory.expect(1, ExpectedAnswer(Request.UNANSWERED_DELETE, "x"))
    inventory.expect(1, ExpectedAnswer(Request.DECLARE))
    proven = [inventory.deletes_proven(1, Request.DECLARE) for _ in range(3)]
    assert [[each.queue for each in answers] for answers in proven] == [[], ["x"], []]


def test_deletes_without_answers_are_bounded() -> None:
    inventory = ResourceCounts()
    for _ in range(MAX_UNANSWERED + 1):
        inventory.expect(1, ExpectedAnswer(Request.UNANSWERED_DELETE, "x"))
    inventory.expect(1, ExpectedAnswer(Request.DECLARE))
    assert len(inventory.deletes_proven(1, Request.DECLARE)) == MAX_UNANSWERED


class Sessions(RuleBasedStateMachine):
    """Sessions that come, take and go as they like, in some groups."""

    sessions = Bundle("sessions")
    groups = st.sampled_from("ab")
    channels = st.integers(0, 2)
    labels = st.sampled_from(["x", "y", "amq.1", "amq.2"])

    @initialize()
    def begin(self) -> None:
        self.stock = GroupTotals()
        self.inventories: list[ResourceCounts] = []

    @rule(target=sessions)
    def come(self) -> ResourceCounts:
        self.inventories.append(ResourceCounts())
        return self.inventories[-1]

    @rule(session=sessions, group=groups, channel=channels, label=labels, is_named=st.booleans())
    def hold(self, session: ResourceCounts, group: str, channel: int, label: str, is_named: bool) -> None:
        session.hold(channel, label, self.stock.total(group), label if is_named else None)

    @rule(session=sessions, group=groups, channel=channels, label=st.sampled_from(["", "x"]))
    def ask(self, session: ResourceCounts, group: str, channel: int, label: str) -> None:
        session.ask(channel, label, self.stock.total(group), label or None)

    @rule(session=sessions, channel=channels, to=channels, label=labels)
    def receive(self, session: ResourceCounts, channel: int, to: int, label: str) -> None:
        held = session.receive(channel, label)
        if held is not None:
            session.keep(to, label, held.renamed(label))

    @rule(session=sessions, channel=channels, label=labels)
    def release(self, session: ResourceCounts, channel: int, label: str) -> None:
        session.release(channel, label)

    @rule(group=groups, name=labels)
    def drop(self, group: str, name: str) -> None:
        self.stock.total(group).drop(name, self.stock.next_age())

    @rule(session=sessions, channel=channels)
    def close(self, session: ResourceCounts, channel: int) -> None:
        session.channel_closed(channel)

    @rule(session=consumes(sessions))
    def go(self, session: ResourceCounts) -> None:
        session.session_over()
        self.inventories.remove(session)

    @invariant()
    def counts_are_sound(self) -> None:
        if not hasattr(self, "stock"):
            return
        counts = [self.stock.total(group).count for group in "ab"]
        assert all(count >= 0 for count in counts)
        assert sum(counts) <= sum(map(len, self.inventories))
        assert len(self.stock) == sum(count > 0 for count in counts)
        if not any(map(len, self.inventories)):
            assert not len(self.stock)


TestSessions = Sessions.TestCase


@given(st.lists(st.sampled_from("ab"), max_size=20))
def test_a_stock_keeps_only_what_is_held(groups: list[str]) -> None:
    stock = GroupTotals()
    inventory = ResourceCounts()
    for number, group in enumerate(groups):
        inventory.hold(number, "it", stock.total(group))
    assert {group: stock.total(group).count for group in "ab"} == {group: groups.count(group) for group in "ab"}
    inventory.session_over()
    assert not len(stock)
