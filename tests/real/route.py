"""The way from a client to RabbitMQ through the proxy, with a recorder on both sides of it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

from tests.real.clients import Broker
from tests.real.poll import until
from tests.real.proxy import Proxy
from tests.real.wire import Recorder, assert_identical

Watched = Callable[[], AbstractContextManager[Broker]]


class Route(NamedTuple):
    """client → `outside` → `proxy` → `inside` → RabbitMQ."""

    outside: Recorder
    proxy: Proxy
    inside: Recorder

    @contextmanager
    def watched(self, ctl: Callable[..., str]) -> Iterator[Broker]:
        """What happens inside is the same on both sides of the proxy, and leaves nothing behind in it."""
        idle = self.proxy.descriptors()
        try:
            yield Broker(self.outside.port, ctl)
        finally:
            outside, inside = self.outside.take(), self.inside.take()
        assert outside, "nothing went through the proxy"
        assert_identical(outside, inside)
        until(lambda: self.proxy.descriptors() <= idle, "the proxy to let go of every socket")
        assert "Traceback" not in self.proxy.log
