"""What goes wrong inside is one line in the log, and the end of its owner only."""

import pytest
import structlog
import trio
from structlog.testing import capture_logs

from amqproxy.process.supervision import PAUSE, contained, describe, first, kept_up


@pytest.fixture(autouse=True)
def _a_log():
    structlog.configure()
    yield
    structlog.reset_defaults()


def test_an_exception_is_one_line_at_error_with_its_place():
    with capture_logs() as lines, contained("queue failed", queue="orders"):
        [][0]
    error, debug = lines
    assert error["event"] == "queue failed"
    assert error["queue"] == "orders"
    assert error["reason"].startswith("IndexError: list index out of range (test_supervision.py:")
    assert debug["log_level"] == "debug"


def test_what_is_to_follow_is_called_with_the_exception():
    followed = []
    with capture_logs(), contained("rule failed", then=followed.append):
        raise ValueError("no")
    assert [str(each) for each in followed] == ["no"]


def test_nothing_is_logged_where_nothing_goes_wrong():
    with capture_logs() as lines, contained("x", then=pytest.fail):
        pass
    assert lines == []


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_is_no_exception_passes_through(kind):
    with pytest.raises(kind), contained("x"):
        raise kind


def test_a_group_of_exceptions_is_named_by_its_first():
    with capture_logs() as lines, contained("x"):
        raise ExceptionGroup("all", [ExceptionGroup("some", [KeyError("a")]), ValueError("b")])
    assert lines[0]["reason"].startswith("KeyError: 'a'")


def test_of_a_mixed_group_only_the_rest_passes_through():
    followed = []
    with pytest.raises(BaseExceptionGroup) as caught, capture_logs(), contained("x", then=followed.append):
        raise BaseExceptionGroup("both", [ValueError("a"), KeyboardInterrupt()])
    assert caught.group_contains(KeyboardInterrupt)
    assert not caught.group_contains(ValueError)
    assert isinstance(first(followed[0]), ValueError)


async def test_cancellation_passes_and_what_failed_beside_it_is_contained():
    async def fail_when_cancelled():
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("while leaving")

    with trio.CancelScope() as scope, capture_logs() as lines, contained("x"):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail_when_cancelled)
            nursery.start_soon(trio.sleep_forever)
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    assert scope.cancelled_caught
    assert lines[0]["reason"].startswith("ValueError: while leaving")


async def test_what_everybody_needs_is_begun_again_after_a_pause(autojump_clock):
    begun = []

    async def serve(what):
        begun.append((what, trio.current_time()))
        if len(begun) < 3:
            raise ValueError("no")

    with capture_logs() as lines:
        await kept_up("not served", serve, "all")
    start = begun[0][1]
    assert [(what, when - start) for what, when in begun] == [("all", pytest.approx(each * PAUSE)) for each in range(3)]
    assert [line["event"] for line in lines if line["log_level"] == "error"] == ["not served"] * 2


def test_a_log_that_fails_is_no_trouble_either():
    class Broken:
        def error(self, *_args, **_fields):
            raise OSError("disk full")

    with contained("x", log=Broken()):
        raise ValueError("no")


def test_an_exception_whose_text_fails_is_described():
    class Nasty(Exception):
        def __str__(self):
            raise RuntimeError

    assert describe(Nasty()) == "Nasty: its text cannot be made: RuntimeError"
    assert describe(ValueError()) == "ValueError"
