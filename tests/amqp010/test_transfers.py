"""Which messages are held, beside a plain table of their states."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp010 import transfers as module
from amqproxy.amqp010.domains import AcceptMode, AcquireMode
from amqproxy.amqp010.errors import IllegalState, InvalidArgument, ProtocolError, ResourceLimitExceeded
from amqproxy.amqp010.transfers import Transfers

EXPLICIT, NONE = AcceptMode
PRE_ACQUIRED, NOT_ACQUIRED = AcquireMode


def held(**modes: tuple[AcceptMode, AcquireMode]) -> Transfers:
    made = Transfers()
    for name, mode in modes.items():
        made.add(int(name[1:]), *mode)
    return made


def test_a_message_that_need_not_be_accepted_is_over_at_once() -> None:
    for mode in AcquireMode:
        transfers = held(_0=(NONE, mode))
        assert not transfers.acquired
        assert not transfers.not_acquired


@pytest.mark.parametrize("settle", ["accept", "reject", "release"])
def test_a_message_is_over_once_it_is_settled(settle: str) -> None:
    transfers = held(_0=(EXPLICIT, PRE_ACQUIRED), _1=(EXPLICIT, PRE_ACQUIRED))
    settled = _settling(transfers, settle)
    settled([range(1)])
    assert list(transfers.acquired) == [range(1, 2)]
    with pytest.raises(InvalidArgument, match="transfer 0 referred to, which are not held") as caught:
        settled([range(1)])
    assert caught.value.section == f"10.2 message.{settle}"
    with pytest.raises(InvalidArgument, match="transfers 0 to 1"):
        settled([range(2)])
    assert not transfers.acquired, "what there was has been settled"


def _settling(transfers: Transfers, name: str) -> Callable[[list[range]], None]:
    if name == "accept":
        return lambda ids: transfers.accept(ids, in_transaction=False)
    return transfers.reject if name == "reject" else transfers.release


def test_what_is_not_acquired() -> None:
    transfers = held(_5=(EXPLICIT, NOT_ACQUIRED), _6=(EXPLICIT, NOT_ACQUIRED), _7=(EXPLICIT, NOT_ACQUIRED))
    with pytest.raises(IllegalState, match="transfers 5 to 6 accepted that are not acquired") as caught:
        transfers.accept([range(5, 7)], in_transaction=False)
    assert caught.value.section == "10.2 message.accept, acquisition"
    transfers.reject([range(5, 6)])  # ignored
    assert list(transfers.not_acquired) == [range(5, 8)]
    transfers.check_acquire([range(5, 7)])
    transfers.acquire([range(6, 7)])
    transfers.accept([range(6, 7)], in_transaction=False)
    transfers.release([range(5, 6)])
    assert (list(transfers.acquired), list(transfers.not_acquired)) == ([], [range(7, 8)])
    for acquire in (transfers.check_acquire, transfers.acquire):
        with pytest.raises(InvalidArgument):
            acquire([range(5, 6)])


def test_a_rollback_takes_accepts_back_and_releases_nothing() -> None:
    transfers = held(**{f"_{number}": (EXPLICIT, PRE_ACQUIRED) for number in range(6)})
    transfers.accept([range(2)], in_transaction=True)
    transfers.commit()
    transfers.accept([range(2, 4)], in_transaction=True)
    transfers.release([range(4, 5)])
    transfers.roll_back()
    assert list(transfers.acquired) == [range(2, 4), range(5, 6)]
    transfers.roll_back()
    assert list(transfers.acquired) == [range(2, 4), range(5, 6)]


def test_ranges_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RANGES", 2)
    transfers = held(**{f"_{number}": (EXPLICIT, PRE_ACQUIRED) for number in range(9)})
    transfers.accept([range(1, 2)], in_transaction=False)
    with pytest.raises(ResourceLimitExceeded, match="more than 2 ranges"):
        transfers.accept([range(4, 5)], in_transaction=False)
    with pytest.raises(ResourceLimitExceeded, match="more than 2 ranges"):
        transfers.add(20, EXPLICIT, PRE_ACQUIRED)


@given(st.data())
def test_it_follows_the_states_of_the_specification(data: st.DataObject) -> None:
    transfers, states = Transfers(), dict[int, str]()
    for step in range(data.draw(st.integers(0, 40))):
        if data.draw(st.booleans()):
            modes = data.draw(st.sampled_from(AcceptMode)), data.draw(st.sampled_from(AcquireMode))
            transfers.add(step, *modes)
            states[step] = "end" if modes[0] == NONE else "acquired" if modes[1] == PRE_ACQUIRED else "not acquired"
            continue
        start = data.draw(st.integers(0, step))
        ids = range(start, data.draw(st.integers(start + 1, step + 1)))
        before = [states.get(each, "end") for each in ids]
        name = data.draw(st.sampled_from(["accept", "reject", "release", "acquire"]))
        try:
            transfers.acquire([ids]) if name == "acquire" else _settling(transfers, name)([ids])
            was_taken = True
        except ProtocolError:
            was_taken = False
        from_states = {
            "accept": {"acquired"},
            "release": {"acquired", "not acquired"},
            "acquire": {"not acquired"},
            "reject": {"acquired", "not acquired"} if "not acquired" in before else {"acquired"},
        }[name]
        if name != "reject" or "end" not in before or "not acquired" not in before:
            assert was_taken == (set(before) <= from_states)
        for each, state in zip(ids, before, strict=True):
            if name == "acquire" and state == "not acquired":
                states[each] = "acquired"
            elif (name != "acquire" and state == "acquired") or (name == "release" and state == "not acquired"):
                states[each] = "end"
        assert {each for part in transfers.acquired for each in part} == {
            each for each, state in states.items() if state == "acquired"
        }
        assert {each for part in transfers.not_acquired for each in part} == {
            each for each, state in states.items() if state == "not acquired"
        }
