"""What an exception that is kept refers to."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from amqproxy.process.exception_frames import release_frames


class Keeper:
    """Keeps what it has met with."""

    error: BaseException | None = None

    def fail(self, *, is_caused: bool) -> None:
        try:
            try:
                raise OSError("first")
            except OSError as error:
                raise ValueError("second") from (error if is_caused else None)
        except ValueError as error:
            self.error = error


@pytest.fixture
def collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("collector")
@pytest.mark.parametrize("is_caused", [False, True])
def test_what_keeps_an_exception_does_not_wait_for_the_garbage_collector(*, is_caused: bool) -> None:
    keeper = Keeper()
    keeper.fail(is_caused=is_caused)
    assert keeper.error is not None
    release_frames(keeper.error)
    assert (str(keeper.error), str(keeper.error.__context__)) == ("second", "first")
    left = weakref.ref(keeper)
    del keeper
    assert left() is None


@pytest.mark.usefixtures("collector")
def test_one_that_refers_to_itself() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    release_frames(one)
    assert other.__traceback__ is None


def test_what_is_on_its_way_meanwhile_can_still_be_found() -> None:
    def fail() -> None:
        raise KeyError("a fault of ours")

    def close() -> None:
        try:
            try:
                raise OSError("gone")
            except OSError as error:
                raise ValueError("closed") from error
        except ValueError as error:
            release_frames(error)

    def serve() -> None:
        try:
            fail()
        finally:
            close()

    with pytest.raises(KeyError) as found:
        serve()
    assert [entry.name for entry in found.traceback][1:] == ["serve", "fail"]
