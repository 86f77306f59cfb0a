"""`amqproxy rules`: checks, tests and explains the rules of a config file, without a proxy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import cyclopts

from amqproxy.cli.failure import MISUSED, Failure
from amqproxy.cli.options import Capture, Flag

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from amqproxy.export.access_suggestion import SuggestedAccess

app = cyclopts.App(name="rules", help="Check and explain the rules of a config file.")


@app.command
def check(*files: Path, strict: Flag = False) -> None:
    """Check the rules of config files, and report the errors of the first wrong one.

    Warns of rules that can be bypassed, lock every client out, or are never evaluated.

    Parameters
    ----------
    files
        .toml, .yaml or .yml files.
    strict
        Exit with 1 if there are warnings.
    """
    from amqproxy.configuration.config_file import load
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
    json: Flag = False,
) -> None:
    """Show the effects that the rules would have had on the traffic in a capture.

    Parameters
    ----------
    file
        A config file.
    capture
        A pcap or pcapng file, plain, gzip, zstd or lz4, or a directory of them; - is standard input.
    json
        Print one JSON object per line for each affected command, instead of text.
    """
    from amqproxy.capture.decode import read_decoded
    from amqproxy.capture.decoded import DecodedFrames, StreamEnded
    from amqproxy.capture.dry_run import DryRun
    from amqproxy.capture.warnings import CaptureError, CaptureWarning
    from amqproxy.cli.progress import Progress
    from amqproxy.cli.second_engine import second_engine
    from amqproxy.configuration.config_file import load
    from amqproxy.taps.record import encoded

    config = load(file)
    rehearsal = DryRun((*config.rules, *config.bridging))
    try:
        with Progress([capture]) as progress:

            def notify(notice: CaptureWarning) -> None:
                progress.clear()
                print(f"amqproxy: {notice}", file=sys.stderr)

            with second_engine("rules test", notify, None) as engine:
                for passed in read_decoded(capture, notify, progress.advance, engine=engine, by_session=True):
                    if isinstance(passed, StreamEnded):
                        rehearsal.end(passed.stream)
                    elif isinstance(passed, DecodedFrames):
                        for rehearsed in rehearsal.play(passed):
                            if progress.is_in_the_way:
                                progress.clear()
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
def suggest(
    *captures: Capture,
    format: Literal["toml", "yaml"] = "toml",
    tables: str | None = None,
    master: str | None = None,
) -> None:
    """Print the smallest access lists, by user, under which all commands in captures would have passed.

    Generated names become patterns. The lists are checked as `rules test` does: it fails if any command in
    these captures would be refused. The output is a config file.

    Parameters
    ----------
    captures
        pcap or pcapng files, plain or compressed, or directories of them; - is standard input.
    format
        The format of the config file.
    tables
        Instead of captures, a directory of tables made by `amqproxy pipeline`, of a month, or of many
        hosts.
    master
        With --tables: where Spark runs, such as local[*] or spark://HOST:PORT; by default, this process reads them
        without Spark.
    """
    from amqproxy.export.access_evidence import TooManyClients
    from amqproxy.export.access_suggestion import as_toml, as_yaml
    from amqproxy.taps.text import counted

    if tables is not None and captures:
        raise Failure("rules suggest: captures, or --tables, not both", MISUSED)
    as_text = as_toml if format == "toml" else as_yaml
    try:
        if tables is None:
            lines, commands, refused = _suggest_from_captures(captures, as_text, format)
        else:
            lines, commands, refused = _suggest_from_tables(tables, as_text, master)
    except TooManyClients as error:
        raise Failure(f"rules suggest: {error}") from None
    print(f"{counted(lines, 'line')}; {counted(commands, 'command')} checked, {refused} refused", file=sys.stderr)
    if refused:
        raise Failure("rules suggest: some commands in these captures would not have passed under this list")


_AsText = Callable[["SuggestedAccess", Iterable[str]], str]


def _suggest_from_captures(captures: Sequence[Path], as_text: _AsText, format: str) -> tuple[int, int, int]:
    """Print the list; return the number of its lines, of checked commands, and of those that it would have refused."""
    from amqproxy.cli.capture_files import CaptureFiles
    from amqproxy.export.access_suggestion import AccessCheck, suggested

    with CaptureFiles("rules suggest", captures, read_again=True) as files:
        access = suggested(files.decoded)
        if not access.lines:
            raise Failure("rules suggest: these captures contain no command that access lists apply to")
        text = as_text(access, files.names)
        print(text, end="")
        sys.stdout.flush()
        check = AccessCheck(text, Path(f"suggested.{format}"))
        for refused in check.play(files.decoded()):
            print(refused, file=sys.stderr)
    return len(access.lines), check.commands, check.refused


def _suggest_from_tables(path: str, as_text: _AsText, master: str | None) -> tuple[int, int, int]:
    """Like `_suggest_from_captures`, from the table `events`: by DuckDB in this process, or by Spark with `master`."""
    try:
        from amqproxy.pipeline.access import suggested_access
        from amqproxy.pipeline.ledger import LedgerError
        from amqproxy.pipeline.tables import Tables
    except ImportError as error:
        raise Failure(f"rules suggest: --tables: {error}", MISUSED) from None
    from amqproxy.export.access_suggestion import refused_of

    try:
        tables = Tables(path)
        if "events" not in tables.names():
            raise Failure(f"rules suggest: there is no table events in {path}: `amqproxy pipeline ingest` makes it")
        with _session(master) as spark:
            access, commands = suggested_access(tables.read(spark, "events"))
    except LedgerError as error:
        raise Failure(f"rules suggest: {error}") from None
    if not access.lines:
        raise Failure("rules suggest: these tables contain no command that access lists apply to")
    print(as_text(access, [path]), end="")
    sys.stdout.flush()
    return len(access.lines), access.commands, refused_of(access, commands)


@contextmanager
def _session(master: str | None) -> Iterator[SparkSession]:
    """Open a session of DuckDB, or of Spark; turn its errors into `Failure`."""
    if master is None:
        import duckdb

        from amqproxy.pipeline.duck import DuckSession

        try:
            with closing(DuckSession()) as opened:
                yield cast("SparkSession", opened)  # it has the part of one that is used
        except duckdb.Error as error:
            raise Failure(f"rules suggest: {str(error).strip().splitlines()[0]}") from None
        return
    from pyspark.errors import PySparkException

    from amqproxy.pipeline import session

    try:
        is_ours = not session.is_running()
        spark = session.session(master)
        try:
            yield spark
        finally:
            if is_ours:
                session.stop(spark)
    except (session.SparkUnavailable, PySparkException) as error:
        raise Failure(f"rules suggest: {str(error).strip().splitlines()[0]}") from None


@app.command
def explain(
    file: Path,
    /,
    *,
    user: str | None = None,
    vhost: str | None = None,
    address: str | None = None,
    connection_name: str | None = None,
    sender: Literal["client", "server"] | None = None,
    method: str | None = None,
    exchange: str | None = None,
    queue: str | None = None,
    routing_key: str | None = None,
    consumer_tag: str | None = None,
    protocol: Literal["0-9-1", "0-10"] | None = None,
) -> None:
    """Describe each rule, whether it would apply to a command, and the outcome; options that are not given stay open.

    Parameters
    ----------
    file
        A config file.
    user
        The user that the client logs in as.
    vhost
        The virtual host of the connection.
    address
        The client's IP address.
    connection_name
        The connection name.
    sender
        The sender of the command.
    method
        The command's method, such as basic.publish or, for AMQP 0-10, message.transfer.
    exchange
        The exchange named in the command.
    queue
        The queue named in the command.
    routing_key
        The routing key of the command.
    consumer_tag
        The consumer tag of the command.
    protocol
        The protocol of the command, if both have a method of that name [0-9-1].
    """
    from amqproxy.amqp091.transitions import Peer
    from amqproxy.configuration.config_file import load
    from amqproxy.rules.amqp010.explanation import explained_command
    from amqproxy.rules.engine.explanation import explained as in_words

    attributes = {"user": user, "vhost": vhost, "client.address": address, "exchange": exchange, "queue": queue}
    attributes |= {"connection_name": connection_name, "routing_key": routing_key, "consumer_tag": consumer_tag}
    given = {name: value for name, value in attributes.items() if value is not None}
    try:
        inquiry = explained_command(given, method, Peer(sender) if sender else None, protocol)
    except ValueError as error:
        raise Failure(f"rules explain: {error}", MISUSED) from None
    config = load(file)
    for line in in_words((*config.rules, *config.bridging), inquiry):
        print(line)
