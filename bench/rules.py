"""The cost of rules: the same flood of publishes with no rules, with 20, and with 200 of which most never match."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import chain
from pathlib import Path

from bench import relay, talk
from bench.peers import amqproxy, listener
from bench.report import SUBJECT, Goal, Row, in_turns, progress

NO_RULES, FEW = "no rules", "20 rules"

ACCESS = '''
[[rules]]
name = "who may do what"
action = "acl"
lines = """
deny anyone to delete
allow user "guest" to publish exchange "orders*"
allow user "guest" to publish exchange "legacy"
allow user "guest" to publish exchange "audit"
allow anyone to connect
allow anyone to consume
otherwise deny
"""
'''

REWRITE = """
[[rules]]
name = "the exchange has a new name"
action = "rewrite"
match = {exchange = "legacy"}
exchange = "modern"
"""

LIMIT = """
[[rules]]
name = "no more than this"
action = "limit"
match = {exchange = "audit"}
of = "messages"
rate = 1000000000
"""

EXPRESSIONS = """
[[rules]]
name = "nothing secret abroad"
action = "refuse"
match = {method = "basic.publish"}
when = "exchange.startsWith('secret') && !routing_key.endsWith('.eu')"

[[rules]]
name = "nobody pretends to be us"
action = "refuse"
match = {method = "basic.publish"}
when = "client.properties.product == 'amqproxy' || routing_key.contains('..')"
"""


def other(number: int) -> str:
    """Return a rule that never matches: for another method, exchange or user."""
    matches = (
        'method = "queue.declare", queue = "tmp-{}"',
        'method = "basic.publish", exchange = "internal-{}"',
        'method = "basic.publish", user = "batch-{}"',
        'method = "exchange.delete", exchange = "core-{}"',
        'method = "basic.consume", queue = "private-{}"',
    )
    match = matches[number % len(matches)].format(number)
    return f'\n[[rules]]\nname = "other {number}"\naction = "refuse"\nmatch = {{{match}}}\n'


def rules(count: int) -> str:
    """Return `count` rules: an access list, a rewrite, a limit, two expressions, and others that never match."""
    others = "".join(other(number) for number in range(count - 5))
    return REWRITE + EXPRESSIONS + others + LIMIT + ACCESS.replace('"legacy"', '"modern"')


MESSAGES = tuple(
    chain(
        (talk.publish(bytes(100), exchange="orders", routing_key=f"order.{number % 4}") for number in range(18)),
        (talk.publish(bytes(100), exchange="legacy", routing_key="order.1"),),
        (talk.publish(bytes(100), exchange="audit", routing_key="order.1"),),
    )
)
"""Twenty publishes, of which one has its exchange rewritten, and one counts against a limit."""


def measure(rounds: int, scale: float) -> Iterator[Row | str]:
    """Yield a row for 20 rules, and one for 200."""
    with listener() as listening, ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        proxies = {}
        for name, text in ((NO_RULES, ""), (FEW, rules(20)), ("200 rules", rules(200))):
            config = directory / f"{name}.toml"
            config.write_text(f"threads = 0\n{text}")  # rules run in the event loop, so both are measured there
            proxies[name] = stack.enter_context(amqproxy(listening.getsockname()[1], config))
        progress("rules: publish 100 B")
        flood = relay.Load("publish 100 B", b"".join(MESSAGES))
        volume = int(200e6 * scale)
        jobs = {name: partial(relay.throughput, listening, proxy, flood, volume) for name, proxy in proxies.items()}
        for job in jobs.values():
            job()
        figures = in_turns(jobs, rounds)
        yield row("20 rules", {NO_RULES: figures[NO_RULES], SUBJECT: figures[FEW]}, NO_RULES, Goal(0.7))
        yield row("200 rules", {FEW: figures[FEW], SUBJECT: figures["200 rules"]}, FEW, Goal(0.95))


def row(name: str, figures: dict[str, list[float]], peer: str, goal: Goal) -> Row:
    return Row("Rules", f"publish 100 B, {name}", "MB/s", figures, (peer,), goal)
