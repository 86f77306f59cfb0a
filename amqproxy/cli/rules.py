"""`amqproxy rules`: the rules of a config file, without a proxy."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import cyclopts
from cyclopts import Parameter

from amqproxy.cli.failure import MISUSED, Failure

app = cyclopts.App(name="rules", help="Check and explain the rules of a config file.")


@app.command
def check(*files: Path, strict: Annotated[bool, Parameter(negative="")] = False) -> None:
    """Check the rules of config files, and report the errors of the first that has any.

    Warns of rules that could be walked around, lock everybody out, or are never asked.

    Parameters
    ----------
    files
        .toml, .yaml or .yml files.
    strict
        Fail where there is something to warn of.
    """
    from amqproxy.config_file import load
    from amqproxy.rules.engine.rule_warnings import find_warnings

    if not files:
        raise Failure("rules check: name a file", MISUSED)
    warnings = 0
    for file in files:
        rules = load(file).rules
        found = list(find_warnings(rules))
        warnings += len(found)
        for each in found:
            print(f"{file}: warning: {each}", file=sys.stderr)
        count = f"{len(rules)} rule{'' if len(rules) == 1 else 's'}"
        print(f"{file}: {count}, {f'{len(found)} to look at' if found else 'fine'}", file=sys.stderr)
    if strict and warnings:
        raise Failure(f"rules check: {warnings} warning{'' if warnings == 1 else 's'}")


@app.command(name="test")
def rehearse(
    file: Path,
    /,
    *,
    capture: Path,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Show what the rules would have done to the traffic in a capture.

    Parameters
    ----------
    file
        A config file.
    capture
        A pcap or pcapng file, plain or gzip; - is standard input.
    json
        One JSON object a line for each command that they would have acted on, instead of text.
    """
    from amqproxy.capture.decode import read_decoded
    from amqproxy.capture.decoded import DecodedFrames
    from amqproxy.capture.dry_run import DryRun
    from amqproxy.capture.warnings import CaptureError
    from amqproxy.config_file import load
    from amqproxy.taps.record import encoded

    rehearsal = DryRun(load(file).rules)
    try:
        for passed in read_decoded(capture, lambda notice: print(f"amqproxy: {notice}", file=sys.stderr)):
            if isinstance(passed, DecodedFrames):
                for rehearsed in rehearsal.play(passed):
                    print(encoded(rehearsed).decode() if json else str(rehearsed))
    except CaptureError as error:
        sys.stdout.flush()
        raise Failure(str(error)) from None
    print(f"{rehearsal.commands} commands", file=sys.stderr)
    for name, counts in rehearsal.rules.counts().items():
        shadow = f", {counts.shadow_hits} in shadow" if counts.shadow_hits else ""
        failed = f", failed {counts.errors} times: {counts.last_failure}" if counts.errors else ""
        print(f"  {name}: {counts.hits}{shadow}{failed}", file=sys.stderr)


@app.command
def explain(
    file: Path,
    /,
    *,
    user: str | None = None,
    vhost: str | None = None,
    address: str | None = None,
    sender: Literal["client", "server"] | None = None,
    method: str | None = None,
    exchange: str | None = None,
    queue: str | None = None,
    routing_key: str | None = None,
    consumer_tag: str | None = None,
) -> None:
    """Describe what each rule does, and which rules would apply to a command; what is not given stays open.

    Parameters
    ----------
    file
        A config file.
    user
        The user that the client logs in as.
    vhost
        The virtual host that it has entered.
    address
        The IP address that it comes from.
    sender
        The sender of the command.
    method
        The command's method, such as basic.publish.
    exchange
        The exchange that it names.
    queue
        The queue that it names.
    routing_key
        Its routing key.
    consumer_tag
        Its consumer tag.
    """
    from amqproxy.amqp091.transitions import Peer
    from amqproxy.config_file import load
    from amqproxy.rules.engine.explanation import ExplainedCommand
    from amqproxy.rules.engine.explanation import explained as in_words

    attributes = {"user": user, "vhost": vhost, "client.address": address, "exchange": exchange, "queue": queue}
    attributes |= {"routing_key": routing_key, "consumer_tag": consumer_tag}
    given = {name: value for name, value in attributes.items() if value is not None}
    try:
        inquiry = ExplainedCommand(given, method, Peer(sender) if sender else None)
    except ValueError as error:
        raise Failure(f"rules explain: {error}", MISUSED) from None
    for line in in_words(load(file).rules, inquiry):
        print(line)
