"""Options of several jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from amqproxy.cli.failure import MISUSED, Failure

if TYPE_CHECKING:
    from amqproxy.pipeline.jobs import Settings

TABLES = "tables"
"""Default directory of tables."""


Engine = Literal["duckdb", "spark"]

LARGE_BYTES = 20 * 10**9
"""Size of new captures above which Spark is the default, in bytes."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Where:
    """Location of the tables, engine, and output format."""

    tables: Annotated[str, Parameter(help="The directory of the tables, or s3://BUCKET/PATH. Created if missing.")] = (
        TABLES
    )
    master: Annotated[
        str | None,
        Parameter(help="Run the jobs on Spark, there: local[*], spark://HOST:PORT, k8s://…"),
    ] = None
    engine: Annotated[
        Engine | None,
        Parameter(
            help="What runs the jobs. By default DuckDB, in this process, without Java; Spark with --master, --ui or "
            f"--live, or for more than {LARGE_BYTES // 10**9} GB of new captures."
        ),
    ] = None
    ui: Annotated[bool, Parameter(negative="", help="Start Spark's web UI, and print its address.")] = False
    json: Annotated[bool, Parameter(negative="", help="Print the results as JSON, one line per job.")] = False


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class How:
    """Conversion of captures to events."""

    leg: Annotated[
        Literal["client", "upstream", "both"],
        Parameter(help="The leg of proxy recordings to ingest: the client's, the upstream's, or both."),
    ] = "client"
    chains: Annotated[
        Literal["auto", "directory", "file"],
        Parameter(help="Captures that continue each other: by their names, all of a directory, or none."),
    ] = "auto"
    body: Annotated[int, Parameter(help="Keep the first N bytes of each body.")] = 0
    fields: Annotated[
        bool,
        Parameter(
            negative="",
            help="Also inspect bodies, for schema-drift and personal-data: paths and types are kept, and no values.",
        ),
    ] = False
    frames: Annotated[
        bool, Parameter(negative="", help="Also make the table frames, which is larger than all others together.")
    ] = False


Age = Annotated[
    str,
    Parameter(
        help="Give up requests that have been open for this time, with an unknown outcome. 0: at once; "
        "open connections are written too."
    ),
]
DAY = "1d"


Window = Annotated[
    str,
    Parameter(
        help="Tell equal messages apart by their order, counted anew when none was published for this time. Messages "
        "with an id of their own are linked however long they wait."
    ),
]
WINDOW = "10m"


Zone = Annotated[str, Parameter(help="Time zone of the traffic, such as Europe/Berlin, in which hours are compared.")]
UTC = "UTC"


def settings_of(
    how: How = How(), age: str = DAY, zone: str = UTC, *, window: str = WINDOW, has_events: bool = True
) -> Settings:
    """Return the settings of the jobs; raise `Failure`."""
    try:
        from amqproxy.pipeline.jobs import Settings
    except ImportError as error:
        raise Failure(f"pipeline: {error}", MISUSED) from None

    if how.body < 0:
        raise Failure(f"pipeline: --body {how.body} is not a number of bytes", MISUSED)
    if not (has_events or how.frames):
        raise Failure("pipeline: --no-events without --frames makes no table", MISUSED)
    return Settings(
        leg=how.leg,
        chains=how.chains,
        body=how.body,
        fields=how.fields,
        has_frames=how.frames,
        has_events=has_events,
        age_ns=age_of(age),
        window_ns=window_of(window),
        zone=zone_of(zone),
    )


def zone_of(name: str) -> str:
    """Return the name of a time zone; raise `Failure`."""
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name).key
    except (ValueError, OSError, LookupError):
        raise Failure(f"pipeline: --zone: {name!r} is not a time zone: write UTC, or Europe/Berlin", MISUSED) from None


def window_of(text: str) -> int:
    """Return the nanoseconds of a duration; raise `Failure`."""
    from amqproxy.pipeline.questions.span import SECOND, seconds_of

    try:
        return seconds_of(text) * SECOND
    except ValueError as error:
        raise Failure(f"pipeline: --window: {error}", MISUSED) from None


def age_of(text: str) -> int:
    """Return the nanoseconds of a duration, or 0; raise `Failure`."""
    from amqproxy.pipeline.questions.span import SECOND, seconds_of

    try:
        return 0 if text == "0" else seconds_of(text) * SECOND
    except ValueError as error:
        raise Failure(f"pipeline: --age: {error}", MISUSED) from None
