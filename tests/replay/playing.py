"""Plays captures in tests: against the integrated broker, or against what a test makes of a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from io import BytesIO
from pathlib import Path

import trio

from amqproxy.capture.decode import read_decoded
from amqproxy.comparison.command_store import CommandStore
from amqproxy.comparison.comparison import compared
from amqproxy.comparison.difference import SentOtherwise
from amqproxy.configuration.upstream_config import UpstreamConfig
from amqproxy.proxy.upstream import Dialer, Unreachable
from amqproxy.replay.broker_link import Watch
from amqproxy.replay.dialogue import steps_of
from amqproxy.replay.replay_copy import AT_ONCE, Order, PlaySettings
from amqproxy.replay.replayer import DialFailed, Replayer
from amqproxy.replay.result import ReplayResult
from amqproxy.replay.steps import Step
from amqproxy.replay.target import parse_target
from amqproxy.replay.traffic_capture import pcapng_of
from amqproxy.replay.traffic_log import TrafficLog
from amqproxy.sockets.transport import Transport
from amqproxy.testing.local_broker import LocalBroker

CAPTURES = Path(__file__).parent.parent.parent / "captures"

WHOLE = [
    "channel-error.pcapng",
    "confirms.pcapng",
    "confirms.ports-reused.pcapng",
    "consume-large.fragmented.pcapng",
    "consume-large.pcapng",
    "consume-large.retransmitted.pcapng.gz",
    "consume-large.shuffled.pcapng",
    "every-type.pcapng",
    "heartbeats.pcapng",
    "kombu-table.pcapng",
    "login-refused.pcapng",
    "publish-get-ack.pcapng",
    "transactions.pcapng",
]
"""Captures of RabbitMQ, from the beginnings of connections to their ends, in which no alarm went off."""


@contextmanager
def broker() -> Iterator[str]:
    """The URL of a new broker, of the version that was recorded."""
    with LocalBroker("3.10") as found:
        yield found.url


def steps_in(capture: Path) -> Iterator[Step]:
    return steps_of(read_decoded(capture))


def played(
    steps: Iterable[Step],
    url: str,
    *,
    speed: float = AT_ONCE,
    clients: int = 1,
    order: Order = Order.CAPTURE,
    timeout: float = 5.0,
    watch: Watch | None = None,
    on_sent: Callable[[SentOtherwise], None] | None = None,
) -> ReplayResult:
    """What playing these steps finds; `watch` is shown what passes."""
    target = parse_target(url)
    dialer = Dialer(UpstreamConfig(address=target.address), timeout)

    async def dial() -> Transport:
        try:
            return await dialer()
        except Unreachable as error:
            raise DialFailed(str(error)) from None

    result = ReplayResult(on_sent=on_sent)
    settings = PlaySettings(target=target, speed=speed, order=order, timeout=timeout)
    trio.run(Replayer(settings, dial, result, clients=clients, watch=watch).play, iter(steps))
    return result


def replayed_and_recorded(capture: Path, url: str) -> tuple[ReplayResult, list[str]]:
    """What playing a capture finds, and in what a capture of that differs from it, as `compare` has it."""
    log = TrafficLog(0)
    result = played(steps_in(capture), url, watch=log.note)
    again = BytesIO(b"".join(pcapng_of(log, program="a test")))
    one, other = CommandStore(), CommandStore()
    with closing(one), closing(other):
        one.load(read_decoded(capture))
        other.load(read_decoded(again))
        reports = [each.to_json().decode() for each in compared(one, other)]
    assert '"report":"summary"' in reports[-1]
    return result, [each for each in reports if '"report":"difference"' in each]


def texts(result: ReplayResult) -> list[str]:
    """What differed and what was not played, for a test that fails."""
    return [each.to_json().decode() for each in result.differences] + [str(each) for each in result.not_played]
