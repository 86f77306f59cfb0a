"""The way from a client to a broker through the proxy, with a recorder on both sides of it.

What comes after the inner recorder is observed: another proxy before RabbitMQ, or our own broker, reports the messages
and findings of the same run, which must be those of a capture of what was recorded.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

from tests.real.clients import Broker
from tests.real.poll import until
from tests.real.proxy import Program, Proxy
from tests.real.reports import assert_same_reports
from tests.real.wire import Recorder, assert_identical

Watched = Callable[..., AbstractContextManager[Broker]]
"""What the fixtures `watched` are; with `is_race`, reports are not compared: they depend on where one looks from."""


class Route(NamedTuple):
    """client → `outside` → `proxy` → `inside` → `observed`, which reports what passes."""

    outside: Recorder
    proxy: Proxy
    inside: Recorder
    observed: Program

    @contextmanager
    def watched(self, ctl: Callable[..., str], *, is_race: bool = False) -> Iterator[Broker]:
        """What happens inside is the same on both sides of the proxy, and leaves nothing behind in it.

        It is reported alike live and from a capture.
        """
        idle = self.proxy.descriptors()
        reported = self.observed.records.stat().st_size
        try:
            yield Broker(self.outside.port, ctl)
        finally:
            outside, inside = self.outside.take(), self.inside.take()
        assert outside, "nothing went through the proxy"
        assert_identical(outside, inside)
        until(lambda: self.proxy.descriptors() <= idle, "the proxy to let go of every socket")
        for program in (self.proxy, self.observed):
            assert "Traceback" not in program.log
        if not is_race:
            assert_same_reports(inside, self.observed.records, reported)
