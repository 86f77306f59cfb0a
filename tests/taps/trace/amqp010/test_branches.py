"""The work of sessions on branches."""

from amqproxy.amqp010.results import Xid
from amqproxy.taps.trace.amqp010.branches import MAX_WORKS, Branches, key_of
from amqproxy.taps.trace.budget import Budget

ONE, OTHER = (1, b"g", b"1"), (1, b"g", b"2")


def test_a_branch_is_named_by_its_xid() -> None:
    assert key_of(Xid(format=1, global_id=b"g", branch_id=b"1")) == ONE
    assert key_of(None) == (0, b"", b"")


def test_a_session_goes_on_with_its_work_and_sessions_share_a_branch() -> None:
    branches, first, second = Branches(), object(), object()
    work = branches.begin(ONE, first, Budget(10))
    assert branches.begin(ONE, first, Budget(10)) is work
    joined = branches.begin(ONE, second, Budget(10))
    assert joined is not work
    assert branches.of(first) == [work]
    assert branches.end(ONE) == [work, joined]
    assert branches.of(first) == []


def test_the_work_of_a_session_that_is_over_is_forgotten() -> None:
    branches, first, second = Branches(), object(), object()
    mine, other = branches.begin(ONE, first, Budget(10)), branches.begin(OTHER, first, Budget(10))
    kept = branches.begin(ONE, second, Budget(10))
    assert branches.forget(first) == [mine, other]
    assert branches.end(ONE) == [kept]
    assert branches.end(OTHER) == []


def test_it_is_bounded() -> None:
    branches, session = Branches(), object()
    for number in range(MAX_WORKS):
        assert branches.begin((number, b"", b""), session, Budget(10)) is not None
    assert branches.begin((MAX_WORKS, b"", b""), session, Budget(10)) is None
    branches.end((0, b"", b""))
    assert branches.begin((MAX_WORKS, b"", b""), session, Budget(10)) is not None
