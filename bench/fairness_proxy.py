"""Round trips of a second client while another client gives a proxy's rules a large amount of work.

Like `fairness`, but through proxies: one that only relays, and one that has the rules or prints. The broker behind them
is RabbitMQ where it is installed, and the integrated one elsewhere.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import BODY as BODY_FRAME
from amqproxy.amqp091.frame import HEADER, encode_frame, encode_method
from amqproxy.amqp091.methods import BasicPublish, ChannelOpen, ConfirmSelect, QueueDeclare, QueueDelete
from amqproxy.amqp091.properties import ContentHeader
from bench import peers, talk
from bench.fairness import MILLISECOND, Felt, Q, Stage, felt_during, percentile
from bench.report import SUBJECT, Goal, Missing, Row, progress

SECTION = "Fairness of the proxy: a second client's round trip meanwhile"
BESIDE = "Fairness of the proxy, to a client that no rule is about: its round trip meanwhile"
RELAY = "plain relay"
EXCHANGE = "amq.fanout"
CHANNELS = range(2, 2002)
FRAMES_A_MESSAGE = 1000
ITEMS = 20_000
"""Items of the JSON body, which is slightly smaller than the megabyte that rules look into."""

NACK = f"""
[[rules]]
name = "refused"
action = "refuse"
with = "nack"
match = {{method = "basic.publish", exchange = "{EXCHANGE}"}}
"""

PATCH = f"""
[[rules]]
name = "patched"
action = "rewrite"
match = {{method = "basic.publish", routing_key = "{Q}"}}
body.json_patch = [{{op = "remove", path = "/items/7"}}, {{op = "add", path = "/checked", value = true}}]
"""

AWAY = "127.0.0.2"
"""Another address of this machine, for the second client when no rule matches it."""

HERE = 'match = {address = "127.0.0.1", '
WITHOUT = "no pump"
PRINTING = ("--print", "--filter", "body.contains('nowhere')")


class Event(NamedTuple):
    """Work for a proxy with `rules` and further `options`: `prepare` sets up a stage, `act` does the work fully."""

    name: str
    prepare: Callable[[Stage], None]
    act: Callable[[Stage, int], None]
    end: Callable[[Stage], None]
    size: int
    rules: str = ""
    options: tuple[str, ...] = ()


def _open_channels(stage: Stage) -> None:
    for methods in ((ChannelOpen(),), (ConfirmSelect(),)):
        for some in talk.batched(CHANNELS, talk.AT_ONCE):
            stage.sock.sendall(b"".join(encode_method(number, each) for number in some for each in methods))
            stage.answers(len(some))


def _publish_on_all(stage: Stage, count: int) -> None:
    """Publish on each channel in one write, repeatedly; each publish is acked or nacked."""
    for _ in range(0, count, len(CHANNELS)):
        stage.sock.sendall(b"".join(talk.publish(b"", exchange=EXCHANGE, channel=number) for number in CHANNELS))
        stage.answers(len(CHANNELS))


def _declare(stage: Stage) -> None:
    stage.ask(QueueDeclare(queue=Q))


def _delete(stage: Stage) -> None:
    stage.ask(QueueDelete(queue=Q))


def _publish_in_many_frames(stage: Stage, count: int) -> None:
    """Publish messages with one byte in each body frame."""
    messages = count // FRAMES_A_MESSAGE
    message = encode_method(1, BasicPublish(routing_key=Q))
    message += encode_frame(HEADER, 1, ContentHeader(FRAMES_A_MESSAGE, talk.PROPERTIES).encode())
    message += encode_frame(BODY_FRAME, 1, b"x") * FRAMES_A_MESSAGE
    stage.sock.sendall(message * messages)
    stage.until(Q, messages)


def _publish_json(stage: Stage, count: int) -> None:
    body = b'{"items": [%b]}' % b", ".join(b'{"id": %d, "name": "an item of %d"}' % (n, n) for n in range(ITEMS))
    message = Command(1, BasicPublish(routing_key=Q), talk.PROPERTIES, body).encode(talk.FRAME_MAX)
    for _ in range(count):
        stage.sock.sendall(message)
    stage.until(Q, count)


EVENTS = (
    Event("2,000 channels, refused with nack", _open_channels, _publish_on_all, lambda stage: None, 100_000, NACK),
    Event("--filter over bodies in frames", _declare, _publish_in_many_frames, _delete, 1_000_000, options=PRINTING),
    Event("JSON patch on 1 MB bodies", _declare, _publish_json, _delete, 50, PATCH),
)


def measure(rounds: int, scale: float) -> Iterator[Row | str]:
    """Yield four rows for each event, from a single round."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        try:
            upstream = stack.enter_context(peers.rabbitmq())
        except Missing as lack:
            yield str(lack)
            upstream = stack.enter_context(peers.broker())
        for event in EVENTS:
            yield from _measure_beside(upstream.port, directory, event, scale)
            count = max(1, int(event.size * min(1.0, scale)))
            progress(f"fairness: {event.name}, {count:,}")
            config = directory / "rules.toml"
            config.write_text(event.rules)
            felt = {
                RELAY: _feel(upstream.port, event, count),
                SUBJECT: _feel(upstream.port, event, count, *event.options, config=config),
            }
            yield from rows(event.name, count, felt)


def _measure_beside(upstream: int, directory: Path, event: Event, scale: float) -> Iterator[Row]:
    """Measure with rules that match only the first client, so that a pump, if there is one, can serve the second."""
    if not event.rules:
        return
    count = max(1, int(event.size * min(1.0, scale)))
    felt = {}
    for threads, name in enumerate((WITHOUT, SUBJECT)):
        progress(f"fairness: {event.name}, of one client alone, {name if not threads else 'with a pump'}")
        config = directory / f"beside-{threads}.toml"
        config.write_text(f"threads = {threads}\n{event.rules.replace('match = {', HERE)}")
        felt[name] = _feel(upstream, event, count, config=config, source=AWAY)
    yield from rows(event.name, count, felt, BESIDE)


def _feel(upstream: int, event: Event, count: int, *options: str, config: Path | None = None, source: str = "") -> Felt:
    with peers.amqproxy(upstream, config, *options) as proxy, ExitStack() as stack:
        stage = Stage(proxy, stack)
        event.prepare(stage)
        felt = felt_during(stage, lambda stage: event.act(stage, count), source=source)
        event.end(stage)
    return felt


def rows(name: str, count: int, felt: dict[str, Felt], section: str = SECTION) -> Iterator[Row]:
    figures: tuple[tuple[str, str, Callable[[Felt], float], Goal | None], ...] = (
        (f"{name}: {count:,}", "s", lambda each: each.took, None),
        ("  median", "ms", lambda each: percentile(each.trips, 50) / MILLISECOND, None),
        ("  99th percentile", "ms", lambda each: percentile(each.trips, 99) / MILLISECOND, Goal(20, is_most=True)),
        ("  longest", "ms", lambda each: max(each.trips) / MILLISECOND, Goal(100, is_most=True)),
    )
    for text, unit, figure, goal in figures:
        values = {proxy: [figure(each)] for proxy, each in felt.items()}
        yield Row(section, text, unit, values, (), goal, less_is_better=True)
