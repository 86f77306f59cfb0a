"""`amqproxy readiness`: whether an installation can be upgraded to a later RabbitMQ."""

from __future__ import annotations

import sys
from codecs import BOM_UTF8
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from amqproxy.cli.capture_files import CaptureFiles
from amqproxy.cli.failure import MISUSED, Failure
from amqproxy.cli.options import Capture, Flag, Keylog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqproxy.capture.decoded import Decoded
    from amqproxy.rabbitmq.profile import Profile
    from amqproxy.readiness.readiness import Readiness
    from amqproxy.readiness.uses import Uses
    from amqproxy.taps.note import Note
    from amqproxy.taps.observer import OnEvents
    from amqproxy.taps.trace.events import TraceEvent

MAX_DEFINITIONS = 256 * 1024 * 1024
"""Largest file of definitions or settings in bytes."""


def readiness(
    *captures: Capture,
    target: str = "",
    definitions: Path | None = None,
    config: Path | None = None,
    tables: str | None = None,
    last: str | None = None,
    keylog: Keylog = None,
    write_rules: Annotated[Path | None, Parameter(allow_leading_hyphen=True)] = None,
    json: Flag = False,
    html: Flag = False,
) -> None:
    """Show whether clients and definitions are ready for a later RabbitMQ: exit code 0 if so, 1 if something breaks.

    From traffic, who would break: the client, its version, its user and its queue; from definitions and rabbitmq.conf,
    what the broker would refuse. Each with what to do, in order, and rules of the proxy that bridge it meanwhile.

    Parameters
    ----------
    captures
        Captures of traffic with the present broker: pcap or pcapng files, directories of them, or - for standard input.
    target
        The version to upgrade to, such as 4.3; by default, the newest that is known.
    definitions
        An export of the broker's definitions (rabbitmqctl export_definitions).
    config
        The broker's rabbitmq.conf: its deprecated_features are part of the target.
    tables
        Instead of captures, a directory of tables made by `amqproxy pipeline`.
    last
        With --tables: only this much of the end, such as 4w; by default, all.
    write_rules
        A file for the rules that bridge what would break or change; an existing one is not replaced.
    json
        Print the report as one JSON object.
    html
        Print the report as one self-contained HTML page.
    """
    from amqproxy.rabbitmq.profile import NEWEST
    from amqproxy.readiness.definitions import add_definitions
    from amqproxy.readiness.settings import add_settings, configured
    from amqproxy.readiness.uses import Uses

    if json and html:
        raise Failure("readiness: --json or --html, not both", MISUSED)
    if captures and tables is not None:
        raise Failure("readiness: captures, or --tables, not both", MISUSED)
    if last is not None and tables is None:
        raise Failure("readiness: --last is for --tables", MISUSED)
    if not captures and tables is None and definitions is None and config is None:
        raise Failure("readiness: name captures, --tables, --definitions or --config", MISUSED)
    version = _profile(target or NEWEST)
    settings = {} if config is None else _settings(config)
    uses = Uses(configured(version, settings))
    add_settings(uses, settings)
    if definitions is not None:
        try:
            add_definitions(uses, _decoded_json(definitions))
        except ValueError as error:
            raise Failure(f"readiness: {definitions}: {error}", MISUSED) from None
    if captures:
        with CaptureFiles("readiness", captures, keylog=keylog) as files:
            if not add_captures(uses, files.decoded()):
                raise Failure("readiness: these captures contain no AMQP 0-9-1 connection", MISUSED)
    if tables is not None:
        _add_tables(uses, tables, last)
    report = uses.readiness()
    _print(report, json=json, html=html)
    if write_rules is not None:
        _write_rules(write_rules, report)
    if not report.is_ready:
        sys.stdout.flush()
        raise Failure(f"readiness: not ready for RabbitMQ {report.target}")


def add_captures(uses: Uses, decoded: Iterable[Decoded]) -> int:
    """Add the uses in captured traffic; return the number of its connections."""
    from amqproxy.capture.observed import observed
    from amqproxy.taps.findings.finding import Finding
    from amqproxy.taps.observer import ObserverSettings
    from amqproxy.taps.trace.events import ConnectionOpened, StateRestored

    streams: set[int] = set()
    begun: set[int] = set()

    def listener_of(stream: int, _: str) -> OnEvents:
        def listen(events: Sequence[TraceEvent], _: Note) -> None:
            streams.add(stream)
            if any(isinstance(each, ConnectionOpened | StateRestored) for each in events):
                begun.add(stream)

        return listen

    settings = ObserverSettings(messages=False, findings=True, counts_findings=True)
    for each in observed(decoded, settings, listener_of=listener_of):
        if isinstance(each, Finding):
            uses.add_finding(each.kind, each.text)
    uses.add_connections(len(streams), unknown=len(streams - begun))
    return len(streams)


def _add_tables(uses: Uses, path: str, last: str | None) -> None:
    """Add the uses in the tables of a pipeline."""
    from amqproxy.cli.pipeline.asking import asked_span, opened_tables
    from amqproxy.readiness.uses import MAX_USES, beyond

    try:
        with opened_tables("readiness", path) as (reader, answers):
            from amqproxy.pipeline.ledger import contents
            from amqproxy.pipeline.questions.upgrade import CONNECTIONS
            from amqproxy.pipeline.questions.upgrade import uses as question

            answer = answers(asked_span("readiness", reader, None, last=last))
            [seen] = answer(CONNECTIONS, {}).to_pylist()
            if not seen["connections"] or "findings" not in contents(path).through:
                raise Failure(f"readiness: no connections and findings in {path}: run `amqproxy pipeline run`")
            uses.add_connections(seen["connections"], unknown=seen["unknown"])
            for each in answer(question(MAX_USES), {}).to_pylist():
                use = each["use"] or beyond(MAX_USES)
                uses.add(each["kind"], "traffic", use, client=each["product"], user=each["user"], times=each["times"])
    except Failure as failure:
        raise Failure(str(failure), MISUSED) from None


def _profile(target: str) -> Profile:
    from amqproxy.rabbitmq.profile import OLDEST, PROFILES

    later = {name: each for name, each in PROFILES.items() if each is not OLDEST}
    if target not in later:
        raise Failure(f"readiness: --target {target}: known versions are {', '.join(later)}", MISUSED)
    return later[target]


def _settings(path: Path) -> dict[str, str]:
    from amqproxy.rabbitmq.settings import settings_of

    try:
        return settings_of(_read(path).decode())
    except ValueError as error:
        raise Failure(f"readiness: {path}: {error}", MISUSED) from None


def _decoded_json(path: Path) -> object:
    import msgspec

    try:
        return msgspec.json.decode(_read(path))
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None


def _read(path: Path) -> bytes:
    """Return the content of a file, without the byte order mark that Windows programs put before UTF-8."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_DEFINITIONS + 1)
    except OSError as error:
        raise Failure(f"readiness: {path}: {error.strerror}", MISUSED) from None
    if len(data) > MAX_DEFINITIONS:
        raise Failure(f"readiness: {path}: the limit is {MAX_DEFINITIONS} bytes", MISUSED)
    return data.removeprefix(BOM_UTF8)


def _print(report: Readiness, *, json: bool, html: bool) -> None:
    from amqproxy.readiness.readiness_page import readiness_page
    from amqproxy.readiness.readiness_text import readiness_lines

    if json:
        print(report.to_json().decode())
    elif html:
        sys.stdout.writelines(readiness_page(report))
    else:
        for line in readiness_lines(report):
            print(line)


def _write_rules(path: Path, report: Readiness) -> None:
    if not report.rules:
        print("amqproxy: readiness: no rule bridges any of it; nothing is written", file=sys.stderr)
        return
    try:
        with path.open("x") as file:
            file.write(report.rules)
    except OSError as error:
        raise Failure(f"readiness: --write-rules {path}: {error.strerror}", MISUSED) from None
