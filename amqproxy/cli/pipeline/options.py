"""The options that several jobs have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from amqproxy.cli.failure import MISUSED, Failure

if TYPE_CHECKING:
    from amqproxy.pipeline.jobs import Settings

TABLES = "tables"
"""The directory of tables unless another is named."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Where:
    """Where the tables are, where Spark runs, and how what was done is printed."""

    tables: Annotated[
        str, Parameter(help="The directory of the tables, or s3://BUCKET/PATH. It is made if it is not there.")
    ] = TABLES
    master: Annotated[
        str | None,
        Parameter(
            help="Where Spark runs: local[*], spark://HOST:PORT, k8s://…; by default here, or where spark-submit says."
        ),
    ] = None
    ui: Annotated[bool, Parameter(negative="", help="Have Spark's web UI, and print its address.")] = False
    json: Annotated[bool, Parameter(negative="", help="Print what was done as JSON, a line a job.")] = False


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class How:
    """How captures become events."""

    leg: Annotated[
        Literal["client", "upstream", "both"],
        Parameter(help="Of recordings of the proxy's: what passed on the client's leg, the upstream's, or both."),
    ] = "client"
    chains: Annotated[
        Literal["auto", "directory", "file"],
        Parameter(help="Which captures continue each other: found by their names, all of a directory, or none."),
    ] = "auto"
    body: Annotated[int, Parameter(help="Keep the first N bytes of each body.")] = 0
    frames: Annotated[
        bool, Parameter(negative="", help="Make the table frames, too: it is larger than all others together.")
    ] = False


Age = Annotated[
    str,
    Parameter(
        help="Give up what has been open for so long: its outcome is unknown. 0: at once, nothing follows; "
        "connections that have not ended are written, too."
    ),
]
DAY = "1d"


Zone = Annotated[
    str, Parameter(help="The clock that the traffic goes by, such as Europe/Berlin: hours are compared by it.")
]
UTC = "UTC"


def settings_of(how: How = How(), age: str = DAY, zone: str = UTC, *, has_events: bool = True) -> Settings:
    """The settings of the jobs. `Failure`."""
    try:
        from amqproxy.pipeline.jobs import Settings
    except ImportError as error:
        raise Failure(f"pipeline: {error}", MISUSED) from None

    if how.body < 0:
        raise Failure(f"pipeline: --body {how.body} is no number of bytes", MISUSED)
    if not (has_events or how.frames):
        raise Failure("pipeline: --no-events makes no table without --frames", MISUSED)
    return Settings(
        leg=how.leg,
        chains=how.chains,
        body=how.body,
        has_frames=how.frames,
        has_events=has_events,
        age_ns=age_of(age),
        zone=zone_of(zone),
    )


def zone_of(name: str) -> str:
    """The name of a time zone. `Failure`."""
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name).key
    except (ValueError, OSError, LookupError):
        raise Failure(f"pipeline: --zone: {name!r} is no time zone: write UTC, or Europe/Berlin", MISUSED) from None


def age_of(text: str) -> int:
    """Nanoseconds of a duration, or 0. `Failure`."""
    from amqproxy.pipeline.questions.span import SECOND, seconds_of

    try:
        return 0 if text == "0" else seconds_of(text) * SECOND
    except ValueError as error:
        raise Failure(f"pipeline: --age: {error}", MISUSED) from None
