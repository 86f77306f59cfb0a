"""The commands of one peer: numbered, completed, known to be; beside plain sets of numbers."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp010.command_ids import CommandIds
from amqproxy.amqp010.command_stream import CommandStream
from amqproxy.amqp010.commands import ExecutionSync, QueueDelete, QueueQuery
from amqproxy.amqp010.errors import IllegalState, InvalidArgument, ProtocolError, UnknownIds
from amqproxy.amqp010.methods import Command
from amqproxy.amqp010.sequence import SequenceSet


def with_commands(count: int, first: int = 0, command: Command | None = None) -> CommandStream:
    made = CommandStream()
    made.point(first, 0)
    for _ in range(count):
        made.finish(made.begin(is_first=True), command)
    return made


def numbers(ids: CommandIds) -> set[int]:
    return {each for part in ids for each in part}


def test_a_new_stream_has_no_numbers() -> None:
    stream = CommandStream()
    assert stream.is_new
    with pytest.raises(UnknownIds):
        stream.begin(is_first=True)


def test_what_completes_is_returned_once() -> None:
    stream = with_commands(5)
    done: list[range] = []
    stream.complete(SequenceSet([(1, 2)]), done)
    stream.complete(SequenceSet([(0, 3)]), done)
    assert done == [range(1, 3), range(1), range(3, 4)]
    assert (numbers(stream.incomplete), numbers(stream.completed)) == ({4}, {0, 1, 2, 3})
    stream.know(SequenceSet([(0, 3)]))
    assert not stream.completed


def test_completion_confirms() -> None:
    stream = with_commands(3)
    stream.confirm(SequenceSet([(0, 1)]))
    stream.complete(SequenceSet([(0, 0)]), [])
    assert numbers(stream.confirmed) == {1}


@pytest.mark.parametrize("first", [0, 5, 2**32 - 3])
def test_numbers_go_on_from_any_point(first: int) -> None:
    stream = with_commands(6, first)
    last = (first + 5) % 2**32
    assert stream.position(last) == first + 5
    with pytest.raises(InvalidArgument, match="which was not sent"):
        stream.position((last + 1) % 2**32)
    stream.complete(SequenceSet([(first, last)]), done := [])
    assert done == [range(first, first + 6)]


def test_the_result_belongs_to_its_command() -> None:
    stream = with_commands(2, command=QueueQuery(queue="q"))
    assert isinstance(stream.answer(1), QueueQuery)
    with pytest.raises(InvalidArgument):
        stream.answer(1)


def test_a_gap_ends_what_waits_for_a_result() -> None:
    stream = with_commands(2, command=QueueQuery(queue="q"))
    stream.skip(SequenceSet([(0, 0), (5, 6)]), done := [])
    assert done == [range(1)]
    assert list(stream.unanswered) == [1]


class Walked(dict[int, Command]):
    """A dict that counts how often it is gone over."""

    times = 0

    def __iter__(self) -> Iterator[int]:
        self.times += 1
        return super().__iter__()


def test_what_waits_for_a_result_is_gone_over_once_for_all_ranges() -> None:
    stream = with_commands(100, command=QueueQuery(queue="q"))
    walked = stream.unanswered = Walked(stream.unanswered)
    odd = SequenceSet([(number, number) for number in range(1, 100, 2)])
    stream.skip(odd, [])
    assert walked.times == 1
    assert list(stream.unanswered) == list(range(0, 100, 2))
    walked.times = 0
    with pytest.raises(IllegalState):
        stream.complete(SequenceSet([(number, number) for number in range(0, 100, 2)]), [])
    assert walked.times == 1
    assert not stream.unanswered


def test_a_sync_that_completes_with_what_is_before_it() -> None:
    stream = with_commands(3, command=QueueDelete(queue="q"))
    stream.finish(stream.begin(is_first=True), ExecutionSync(), is_sync=True)
    assert numbers(stream.awaited) == {3}
    stream.complete(SequenceSet([(0, 3)]), [])
    assert not stream.awaited


def test_commands_that_are_sent_again_have_no_second_effect() -> None:
    stream = with_commands(3)
    stream.reattach()
    stream.point(1, 0)
    assert [stream.finish(stream.begin(is_first=True), None) for _ in range(4)] == [False, False, True, True]
    assert numbers(stream.incomplete) == set(range(5))


sets = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5)), max_size=4).map(
    lambda pairs: SequenceSet([(first, first + size) for first, size in pairs])
)


@given(st.integers(0, 20), st.lists(st.tuples(st.sampled_from(["complete", "know", "confirm", "send"]), sets)))
def test_it_keeps_sets(count: int, steps: list[tuple[str, SequenceSet]]) -> None:
    stream = with_commands(count)
    sent, complete, known = set(range(count)), set[int](), set[int]()
    for name, commands in steps:
        named = set(commands)
        try:
            match name:
                case "send":
                    sent.add(len(sent))
                    stream.finish(stream.begin(is_first=True), None)
                case "complete":
                    complete |= named & sent
                    stream.complete(commands, [])
                case "know":
                    known |= named & complete
                    stream.know(commands)
                case _:
                    stream.confirm(commands)
            assert name in ("send", "know") or named <= sent
            assert name != "know" or named <= complete
        except ProtocolError:
            assert not named <= (complete if name == "know" else sent)
        known -= {each for each in known if each not in complete}
        assert numbers(stream.incomplete) == sent - complete
        assert numbers(stream.completed) <= complete
        assert complete - known <= numbers(stream.completed)
