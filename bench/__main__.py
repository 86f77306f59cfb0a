"""Measure amqproxy side by side with other programs, and print ratios."""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from itertools import chain

from amqproxy.compiled import _pure
from bench import (
    broker,
    broker_0_10,
    captures,
    dashboard,
    decode,
    fairness,
    fairness_flood,
    fairness_proxy,
    latency,
    memory,
    pipeline,
    pool,
    pump,
    pump_0_10,
    rabbitmq,
    relay,
    relay_0_10,
    rules,
    scale,
    tls,
    watch,
)
from bench.report import Row, table

SECTIONS = {
    "relay": relay.measure,
    "relay-0-10": relay_0_10.measure,
    "rules": rules.measure,
    "watch": watch.measure,
    "dashboard": dashboard.measure,
    "latency": latency.measure,
    "pump": pump.measure,
    "pump-0-10": pump_0_10.measure,
    "decode": decode.measure,
    "captures": captures.measure,
    "pipeline": pipeline.measure,
    "rabbitmq": rabbitmq.measure,
    "memory": memory.measure,
    "tls": tls.measure,
    "pool": pool.measure,
    "broker": broker.measure,
    "broker-0-10": broker_0_10.measure,
    "fairness": lambda rounds, scale: chain(
        *(each.measure(rounds, scale) for each in (fairness, fairness_proxy, fairness_flood))
    ),
    "scale": scale.measure,
}
NAMED_ONLY = {"large-capture": captures.measure_large}
"""Sections that take much time or space, and run only if they are named."""


def main() -> None:
    """Measure the sections that the options name; without any, all sections."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and bytes: about a minute")
    parser.add_argument(
        "--only", action="append", choices=[*SECTIONS, *NAMED_ONLY], help="measure this section only; may be repeated"
    )
    parser.add_argument("--rounds", type=int, help="rounds of each measurement [7, with --quick 3]")
    parser.add_argument("--json", action="store_true", help="print all figures as JSON instead of a table")
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # for the many connections of the section "memory"
    rounds = options.rounds or (3 if options.quick else 7)
    scale = 0.2 if options.quick else 1.0
    began = time.monotonic()
    rows: list[Row] = []
    for name in options.only or SECTIONS:
        for found in (SECTIONS | NAMED_ONLY)[name](rounds, scale):
            if isinstance(found, Row):
                rows.append(found)
            else:
                print(f"  skipped: {found}", file=sys.stderr)
    if options.json:
        print(json.dumps([row.summary() for row in rows], indent=2))
        return
    print(table(rows))
    form = "compiled" if _pure.is_compiled() else "plain: no compiled modules!"
    print(f"\namqproxy is {form}. Medians of up to {rounds} rounds in turns, in {time.monotonic() - began:.0f} s.")
    print("A ratio is amqproxy's median to that of its best peer; the spread is its range over the rounds.")


if __name__ == "__main__":
    main()
