"""`amqproxy pipeline ask` and `report`: queries of the tables, by DuckDB in this process, or by Spark with --master."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from amqproxy.cli.failure import MISUSED, Failure
from amqproxy.cli.pipeline.driver import explained
from amqproxy.cli.pipeline.options import TABLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from amqproxy.pipeline.questions import Question
    from amqproxy.pipeline.questions.question import Value
    from amqproxy.pipeline.questions.span import Span
    from amqproxy.pipeline.reading import Reader
    from amqproxy.pipeline.report import Ask

MAX_ROWS = 1_000_000_000
"""Maximum of --limit."""

MEMORY, SECONDS = "2GB", 600.0
"""Memory and time limits of one answer without Spark."""


def ask(
    name: str | None = None,
    /,
    *,
    tables: str = TABLES,
    start: str | None = None,
    end: str | None = None,
    last: str | None = None,
    before: str | None = None,
    limit: int | None = None,
    exchange: str | None = None,
    routing_key: str | None = None,
    queue: str | None = None,
    by: str | None = None,
    factor: str | None = None,
    least: str | None = None,
    times: str | None = None,
    objective: str | None = None,
    confirm_ms: str | None = None,
    delivery_ms: str | None = None,
    message_id: str | None = None,
    digest: str | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
    csv: Annotated[bool, Parameter(negative="")] = False,
    about: Annotated[bool, Parameter(negative="")] = False,
    master: str | None = None,
) -> None:
    """Answer a question about the tables; without a name, list the questions.

    By default, a question is about the last week that was recorded.

    Parameters
    ----------
    name
        The question, such as publishers.
    tables
        The directory of the tables.
    start
        Start of the time span: 2026-01-31, or 2026-01-31T10:59:05 (UTC, or with +01:00).
    end
        End of the time span, exclusive.
    last
        Length of the time span: 12h, 7d, 4w.
    before
        Start of the equally long earlier span to compare with; by default, the span just before.
    limit
        Maximum number of rows.
    exchange
        For publishers and slow-confirms: the exchange; '' for the default exchange.
    routing_key
        For publishers: only this routing key.
    queue
        For queue-users: only this queue.
    by
        For capacity: virtual-host or user; for dependencies: key or exchange; for objectives: queue or hour.
    factor
        For slower-consumers: minimum slowdown factor.
    least
        For slower-consumers: minimum acknowledgements in both spans; for large-messages: minimum bytes; for
        schema-drift: minimum inspected messages of a day.
    times
        For poison: number of deliveries that makes a message poison.
    objective
        For objectives: percentage of messages that shall meet the objective, 99.9 by default.
    confirm_ms
        For objectives: milliseconds from publish to confirm.
    delivery_ms
        For objectives: milliseconds from publish to delivery.
    message_id
        For message: its property message_id.
    digest
        For message: the hash of its body, as shown in other answers.
    json
        Print one JSON object per line: times in UTC, durations in ns, sizes in bytes.
    csv
        Print CSV with a header line.
    about
        Explain the answer's columns, instead of answering.
    master
        Where Spark runs, such as local[*] or spark://HOST:PORT; by default, this process answers without Spark.
    """
    if json and csv:
        raise Failure("pipeline ask: --json or --csv, not both", MISUSED)
    question = _question(name)
    if question is None:
        return
    if about:
        print(question.about.strip())
        for each in question.options:
            print(f"  --{each.name.replace('_', '-')}  {each.help}")
        return
    options = {"exchange": exchange, "routing_key": routing_key, "queue": queue, "by": by, "factor": factor}
    options |= {"least": least, "times": times, "objective": objective, "confirm_ms": confirm_ms}
    options |= {"delivery_ms": delivery_ms, "message_id": message_id, "digest": digest}
    given: dict[str, Value] = {key: value for key, value in options.items() if value is not None}
    try:
        question.values(given)
    except ValueError as error:
        raise Failure(f"pipeline ask: {error}", MISUSED) from None
    with opened_tables("pipeline ask", tables, master=master, limit=limit) as (reader, answers):
        asked = asked_span("pipeline ask", reader, question.seconds, start, end, last, before)
        answer = answers(asked)(question, given)
    from amqproxy.pipeline.questions import text

    lines = text.json_lines if json else text.csv_lines if csv else text.table_lines
    if answer.num_rows or csv:
        for line in lines(answer):
            sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
    most = limit or question.limit
    shown = f", the first {most}" if answer.num_rows == most else ""
    print(
        f"amqproxy: {question.title}: {_rows(answer.num_rows)}{shown}; {_described(asked, question)}", file=sys.stderr
    )


def report(
    *,
    to: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    tables: str = TABLES,
    start: str | None = None,
    end: str | None = None,
    last: str | None = None,
    master: str | None = None,
) -> None:
    """Write a report about a time span as one self-contained HTML page with plots.

    Traffic, latencies, top talkers, anomalies, findings, errors and capacity: by default, of the last week that
    was recorded.

    Parameters
    ----------
    to
        The file, replaced if it exists; - is standard output.
    tables
        The directory of the tables.
    start
        Start of the time span: 2026-01-31, or 2026-01-31T10:59:05 (UTC, or with +01:00).
    end
        End of the time span, exclusive.
    last
        Length of the time span: 12h, 7d, 4w.
    master
        Where Spark runs, such as local[*] or spark://HOST:PORT; by default, this process answers without Spark.
    """
    from amqproxy.export.output_file import FileExists, OutputFile
    from amqproxy.pipeline.questions.question import DAY

    def not_written(error: Exception) -> Failure:
        reason = error.strerror if isinstance(error, OSError) else error
        return Failure(f"pipeline report: --to {to}: {reason}")

    try:
        file = None if str(to) == "-" else OutputFile(to, replaces=True)
    except (FileExists, OSError) as error:
        raise not_written(error) from None
    with opened_tables("pipeline report", tables, master=master) as (reader, answers):
        from amqproxy.pipeline.report import report_page

        asked = asked_span("pipeline report", reader, 7 * DAY, start, end, last)
        try:
            page = list(report_page(answers(asked), asked, tables))
        except ImportError as error:
            raise Failure(f"pipeline report: {error}", MISUSED) from None
    if file is None:
        sys.stdout.write("".join(page))
        sys.stdout.flush()
        return
    try:
        with file as output:
            for piece in page:
                output.write(piece.encode())
    except (FileExists, OSError) as error:
        raise not_written(error) from None
    print(f"{to}: {_described(asked)}", file=sys.stderr)


def _question(name: str | None) -> Question | None:
    """Return the question of that name; without a name, list all."""
    try:
        from amqproxy.pipeline.questions import QUESTIONS
    except ImportError as error:
        raise Failure(f"pipeline ask: {error}: pip install 'amqproxy[pipeline]'", MISUSED) from None
    if name is None:
        width = max(map(len, QUESTIONS))
        for each in QUESTIONS.values():
            print(f"{each.name:<{width}}  {each.title}")
        return None
    if name not in QUESTIONS:
        from amqproxy.rules.suggestions import did_you_mean

        raise Failure(f"pipeline ask: no question {name!r}{did_you_mean(name, QUESTIONS)}", MISUSED)
    return QUESTIONS[name]


class Answers:
    """Answers questions about a span, with Spark if there is a session."""

    def __init__(self, reader: Reader, limit: int | None, master: str | None) -> None:
        self._reader = reader
        self._limit = limit
        self._master = master

    def __call__(self, span: Span) -> Ask:
        from amqproxy.pipeline.questions.answer import answer_of_reader, answer_of_spark

        if self._master is None:
            return lambda question, given: answer_of_reader(self._reader, question, span, given, limit=self._limit)
        from amqproxy.pipeline import session
        from amqproxy.pipeline.tables import Tables

        spark = session.session(self._master)
        tables = Tables(self._reader.path)

        def answer(question: Question, given: Mapping[str, Value]) -> pa.Table:
            return answer_of_spark(
                spark, lambda name: tables.read(spark, name), question, span, given, limit=self._limit
            )

        return answer


@contextmanager
def opened_tables(
    command: str, tables: str, *, master: str | None = None, limit: int | None = None
) -> Iterator[tuple[Reader, Answers]]:
    """Return a reader of the tables, and an answerer of questions; raise `Failure`."""
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        from amqproxy.pipeline.reading import Reader, Unreadable
        from amqproxy.pipeline.session import SparkUnavailable
    except ImportError as error:
        raise Failure(f"{command}: {error}: pip install 'amqproxy[pipeline]'", MISUSED) from None
    if limit is not None and not 1 <= limit <= MAX_ROWS:
        raise Failure(f"{command}: --limit {limit}: from 1 to {MAX_ROWS}", MISUSED)
    try:
        reader = Reader(tables, memory=MEMORY, seconds=SECONDS)
        yield reader, Answers(reader, limit, master)
    except (Unreadable, SparkUnavailable) as error:
        raise Failure(f"{command}: {error}") from None
    except (PySparkException, Py4JError) as error:
        raise Failure(f"{command}: {explained(error)}") from None


def asked_span(
    command: str,
    reader: Reader,
    seconds: int | None,
    start: str | None = None,
    end: str | None = None,
    last: str | None = None,
    before: str | None = None,
) -> Span:
    """Return the span that the options ask for, by default the last `seconds`, or all; raise `Failure`."""
    from amqproxy.pipeline.questions.span import SECOND, seconds_of, span

    known = reader.span(reader.names())
    if known is None:
        raise Failure(
            f"{command}: no tables in {reader.path}: make them with `amqproxy pipeline run`, or name them with --tables"
        )
    default = (known[1] - known[0]) // SECOND if seconds is None else seconds
    if start is not None and end is not None and last is not None:
        raise Failure(f"{command}: give at most two of --start, --end and --last", MISUSED)
    try:
        return span(
            known[1] - 1,
            default if last is None else seconds_of(last),
            start_ns=_time(start),
            end_ns=_time(end),
            before_ns=_time(before),
        )
    except ValueError as error:
        raise Failure(f"{command}: {error}", MISUSED) from None


def _time(text: str | None) -> int | None:
    if text is None:
        return None
    from amqproxy.capture.selection.time_window import moment

    found = moment(text)
    if found.since != "1970":
        raise ValueError(f"{text!r} is not a date or time: write 2026-01-31, or 2026-01-31T10:59:05 (UTC)")
    return found.ns


def _described(span: Span, question: Question | None = None) -> str:
    from amqproxy.export.shown_text import moment

    text = f"{moment(span.start_ns)[:19]} to {moment(span.end_ns)[:19]} UTC"
    if question is not None and question.is_comparing:
        earlier = span.earlier
        text += f", compared with {moment(earlier.start_ns)[:19]} to {moment(earlier.end_ns)[:19]}"
    return text


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"
