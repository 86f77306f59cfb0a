"""Jobs of `amqproxy pipeline`: each processes new rows since its last run, and commits its results atomically.

    ingest     captures → events, and the state of open connections; frames, if requested
    settle     events → messages, deliveries, requests, connections, channels, errors, fields, and open requests
    link       messages, deliveries → deliveries with their publishes, clocks
    rollup     those → rollup_minute, hour by hour
    findings   events → findings
    anomalies  hours → anomalies
    compact    the small files of an hour → one

A killed job is started again by the next run, since it committed nothing. Two runs and one give the same tables.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql.types import LongType, StringType, StructType

from amqproxy.pipeline.chain_reading import LostPart
from amqproxy.pipeline.chains import Mode, chains
from amqproxy.pipeline.engine import engine_of
from amqproxy.pipeline.frame_table import stage_frames
from amqproxy.pipeline.late_captures import LateCaptures, late_captures, rows_about
from amqproxy.pipeline.ledger import Capture, Found, Ledger, is_open_file, present
from amqproxy.pipeline.links.linking import WINDOW_NS
from amqproxy.pipeline.lost_parts import lost_parts
from amqproxy.pipeline.schema import TABLES
from amqproxy.pipeline.small_input import in_one_partition
from amqproxy.pipeline.span import HOUR, SECOND
from amqproxy.pipeline.tables import (
    Tables,
    batch_of,
    hour_of,
    only_chains,
    read_state,
    stage,
    stage_again,
    without_chains,
    write_state,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from amqproxy.pipeline.rollup import Replaced

DAY_NS = 24 * HOUR

CHAIN_IDLE_NS = 7 * DAY_NS
"""Age of a chain's last file, compared with the newest capture, from which the chain has ended and its state is
dropped.
"""

SETTLED = ("messages", "deliveries", "requests", "connections", "channels", "errors", "fields")
"""Tables made by settling."""

COUNTED, GAPS = "counted-1", "gaps-1"
"""Names of the state that `rollup` carries: the open connections that it has counted, and the gaps in chains."""

UNCOUNTED = "uncounted-1"
"""Name of the state that `settle` carries: connections that `rollup` has counted, and that were replaced since."""

COUNTED_LIVES = StructType(
    [
        TABLES["connections"][name]
        for name in ("chain", "connection_id", "connection", "user", "virtual_host", "time", "closed_ns")
    ]
)

GAPS_OF_CHAINS = StructType().add("chain", StringType()).add("from_ns", LongType()).add("to_ns", LongType())
"""Times for which nothing was recorded of a chain, or in which its clock jumped."""

LASTING = ("connections", "channels")
"""Tables with rows for what is open: each batch of `settle` replaces them."""

LINKED = ("messages", "deliveries")
"""Tables from which deliveries are linked."""

CONTENTS = ("messages", "deliveries", "errors")
"""Tables from which all minutes of an hour are counted."""

COMPACT_BYTES = 128 * 1024 * 1024
"""Size from which files are not merged."""

_TRIES = 3
"""Number of attempts to read captures that a recorder may be compressing."""

Hours = set[tuple[str, int]]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for making tables of captures."""

    leg: str = "client"
    chains: str = "auto"
    body: int = 0
    fields: bool = False
    """Whether to make the table `fields`, for which bodies are inspected."""
    has_frames: bool = False
    """Whether to make the table `frames`, which is larger than all others together."""
    has_events: bool = True
    """Whether to make the table `events`, the source of all others."""
    age_ns: int | None = DAY_NS
    """Age at which open requests become `unknown`; 0: at once, since no captures follow."""
    window_ns: int = WINDOW_NS
    """Time after which equal contents without a unique message_id are counted anew."""
    zone: str = "UTC"
    """Time zone of the traffic, such as Europe/Berlin, in which hours of working days are compared."""


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a job; without rows it committed nothing."""

    job: str
    batch: int | None = None
    rows: dict[str, int] = {}
    """By table."""
    captures: int = 0
    """Number of ingested captures."""
    removed: int = 0
    """Number of replaced files."""
    lost: list[LostPart] = []
    """Unreadable parts of the captures."""
    again: list[str] = []
    """Chains that were read again, since some of the captures were late."""


# --- ingest


def ingest(spark: SparkSession, ledger: Ledger, files: Sequence[str], settings: Settings) -> Done:
    """Ingest captures that the ledger reports as new.

    A chain of which some are late is read again from its first file, and replaces its rows: see `late_captures`.
    """
    if not files:
        return Done(job="ingest")
    removed: list[str] = []
    for _ in range(_TRIES):
        files = [present(file) for file in files]
        late = late_captures(ledger, files, _mode(settings.chains)) if settings.has_events else LateCaptures([], [])
        if settings.has_events:
            removed = _stage_events(spark, ledger, files, late, settings)
        if settings.has_frames:
            stage_frames(spark, ledger, files, leg=settings.leg, chains=settings.chains, body=settings.body)
        if all(present(file) == file for file in [*files, *late.files]):
            break  # else some may have been compressed before they were opened
    carried = ["state"] if settings.has_events else []
    tables = [name for name, is_made in _made(settings).items() if is_made]
    done = _commit(
        ledger,
        "ingest",
        tables,
        captures=files,
        removed=removed,
        carried=carried,
        again=late.replaced,
        through=ledger.next_batch,
    )
    added = [file for file in ledger.contents.files.get(tables[0], []) if batch_of(file) == done.batch]
    lost = lost_parts(ledger.path, added, tables[0], batch=ledger.contents.batch)
    return msgspec.structs.replace(done, lost=lost, again=[chain.name for chain in late.again])


def _made(settings: Settings) -> dict[str, bool]:
    """Return the tables that are made of captures."""
    return {"events": settings.has_events, "frames": settings.has_frames}


def _stage_events(
    spark: SparkSession, ledger: Ledger, files: Sequence[str], late: LateCaptures, settings: Settings
) -> list[str]:
    """Stage the events of captures; return the files that they replace."""
    engine = engine_of(spark)
    not_in_order = {file for each in late.apart for file in each.files} | set(late.files)
    in_order = [file for file in files if file not in not_in_order]
    carried = ledger.carried("ingest", "state")
    options = {"table": "events", "leg": settings.leg, "chains": settings.chains, "body": str(settings.body)}
    options |= {"fields": "true"} if settings.fields else {}
    carrying = {**options, "carry": "true", "shares": "auto"}
    events = []
    if in_order:
        state = {} if carried is None else {"state": f"{ledger.path}/{carried}"}
        events.append(engine.captures(in_order, carrying | state))
    if late.again:
        events.append(engine.captures(late.files, carrying))
    if late.apart:
        events += [engine.captures(each.files, {**options, "chains": "one"}) for each in late.apart]
        events.append(spark.createDataFrame(rows_about(late.apart), TABLES["events"]))
    rows = events[0]
    for more in events[1:]:
        rows = rows.unionByName(more)
    removed = stage_again(ledger, "events", rows, late.replaced, apart="type = 'state'")
    read = {chain.name for chain in chains(in_order, _mode(settings.chains))} | late.replaced
    _carry_state(spark, ledger, carried, read | ended_chains(ledger.contents.captures.values(), settings.chains))
    return removed


def ended_chains(captures: Iterable[Capture], mode: str) -> set[str]:
    """Return the chains whose last file is older than the newest of all by `CHAIN_IDLE_NS`."""
    modified = {capture.path: capture.modified_ns for capture in captures}
    oldest = max(modified.values(), default=0) - CHAIN_IDLE_NS
    found = chains(modified, _mode(mode))
    return {chain.name for chain in found if max(modified[file] for file in chain.files) < oldest}


def _carry_state(spark: SparkSession, ledger: Ledger, carried: str | None, known: Collection[str]) -> None:
    """Write the state of open connections: of the chains just read, and of others that are not in `known`.

    `known` are the chains that were read, and those that have ended.
    """
    kind = StructType([TABLES["events"][name] for name in ("chain", "connection_id", "state")])
    staged = [f"{ledger.path}/{file}" for file in ledger.staged_apart("events")]
    states = read_state(spark, kind, *staged) if staged else spark.createDataFrame([], kind)
    if carried is not None:
        before = read_state(spark, kind, f"{ledger.path}/{carried}")
        states = states.unionByName(without_chains(before, known))
    write_state(states.coalesce(1), f"{ledger.path}/{ledger.carry('state')}", kind)


def _mode(text: str) -> Mode:
    mode: Mode = msgspec.convert(text, Mode)
    return mode


# --- settle


def settle(spark: SparkSession, ledger: Ledger, settings: Settings) -> Done:
    """Determine the outcomes of new events, and of earlier open requests.

    Rows of chains that were read again are replaced.
    """
    from amqproxy.pipeline.settle import OPEN
    from amqproxy.pipeline.settle import settle as settled_of

    through = ledger.contents.through.get("ingest", 0)
    done = ledger.contents.through.get("settle", 0)
    carried = ledger.carried("settle", "open")
    if through <= done and not (settings.age_ns == 0 and carried):
        return Done(job="settle")
    events = Tables.of(ledger).read(spark, "events", after=done).where(f"batch <= {through}")
    opened = None
    if carried is not None:
        opened = read_state(spark, OPEN, f"{ledger.path}/{carried}")
    again = ledger.read_again("ingest", after=done)
    if again and opened is not None:
        opened = without_chains(opened, again)
    over = ended_chains(ledger.contents.captures.values(), settings.chains)
    settled = settled_of(events, opened, age_ns=settings.age_ns, over=over)
    removed = [file for name in LASTING for file in ledger.open_files(name)]
    for name in SETTLED:
        removed += stage_again(ledger, name, getattr(settled, name), again, in_one_partition=settled.is_small)
    for name in LASTING:
        stage(ledger, name, getattr(settled, f"open_{name}"), in_one_partition=settled.is_small, is_open=True)
    newest = _newest_open(ledger, settled.open_connections)
    write_state(settled.open, f"{ledger.path}/{ledger.carry('open')}", OPEN)
    settled.release()
    carried_now = ["open", *_carry_uncounted(spark, ledger, again)]
    return _commit(
        ledger,
        "settle",
        SETTLED,
        removed=removed,
        through=through,
        carried=carried_now,
        again=again,
        newest_open=newest,
    )


def _carry_uncounted(spark: SparkSession, ledger: Ledger, again: Collection[str]) -> list[str]:
    """Carry the replaced rows of ended connections that `rollup` has counted; return the names of the state."""
    done = ledger.contents.through.get("rollup", 0)
    rows = _uncounted(spark, ledger)
    if files := Tables.of(ledger).files_with("connections", again):
        replaced = only_chains(Tables.of(ledger).read_files(spark, "connections", files), again)
        counted = replaced.where(f"batch <= {done}").select(*COUNTED_LIVES.names)
        rows = counted if rows is None else rows.unionByName(counted)
    if rows is None:
        return []
    write_state(rows.coalesce(1), f"{ledger.path}/{ledger.carry(UNCOUNTED)}", COUNTED_LIVES)
    return [UNCOUNTED]


def _uncounted(spark: SparkSession, ledger: Ledger) -> DataFrame | None:
    """Return the replaced connections that `rollup` has counted, and not yet taken back."""
    path = ledger.carried("settle", UNCOUNTED)
    if path is None or int(path.split("/")[2]) <= ledger.contents.through.get("rollup", 0):
        return None
    return read_state(spark, COUNTED_LIVES, f"{ledger.path}/{path}")


def _newest_open(ledger: Ledger, connections: DataFrame) -> dict[str, int]:
    """Return the last batch in which any open connection of an hour was new, for the hours in which this one has none.

    Its rows are written again in each batch; readers of new rows would otherwise take all of them as new.
    """
    rows = connections.sparkSession.sql(
        "SELECT DISTINCT to_date(time) AS date, hour(time) AS hour FROM {rows} WHERE is_new AND time IS NOT NULL",
        rows=connections,
    ).collect()
    new = {(row.date.isoformat(), row.hour) for row in rows}
    files = ledger.open_files("connections")
    return {file.rpartition("/")[0]: batch_of(file) for file in files if hour_of(file) not in new}


# --- results of the settled tables


def link(spark: SparkSession, ledger: Ledger, settings: Settings) -> Done:
    """Link the deliveries of all contents that new rows may change, in whichever batch and hour they are."""
    from amqproxy.pipeline.links import link as linked_of
    from amqproxy.pipeline.links.pairs import REACH_NS

    hours = _touched(ledger, "link", LINKED)
    if not hours:
        return Done(job="link")
    done = ledger.contents.through.get("link", 0)
    tables = Tables.of(ledger)
    first, last = _start_ns(min(hours)) - REACH_NS, _start_ns(max(hours)) + REACH_NS
    found = {name: {hour_of(file) for file in tables.files(name)} for name in (*LINKED, "clocks")}
    near = {name: {hour for hour in of if first <= _start_ns(hour) <= last} for name, of in found.items()}
    rows = {name: tables.read(spark, name, hours=of) for name, of in near.items()}
    is_all_new = all(batch_of(file) > done for name in LINKED for file in tables.files(name))
    linked = linked_of(
        rows["messages"],
        rows["deliveries"],
        rows["clocks"] if near["clocks"] else None,
        after=None if is_all_new else done,
        window_ns=settings.window_ns,
        replaced=ledger.read_again("settle", after=done),
    )
    changed = {"deliveries": linked.hours, "clocks": linked.clock_hours}
    replaced: dict[str, list[str]] = {}
    for name, of in changed.items():
        again = {hour for hour in near[name] if _start_ns(hour) // HOUR in of}
        replaced[name] = [file for file in tables.files(name) if hour_of(file) in again]
    if replaced["deliveries"]:
        stage(ledger, "deliveries", linked.apply(tables.read_files(spark, "deliveries", replaced["deliveries"])))
    if linked.clock_hours:
        stage(ledger, "clocks", linked.clocks(linked.clock_hours), in_one_partition=True)
    linked.release()
    removed = [file for files in replaced.values() for file in files]
    return _commit(ledger, "link", ["deliveries", "clocks"], removed=removed, through=ledger.next_batch)


def rollup(spark: SparkSession, ledger: Ledger) -> Done:
    """Count the minutes again in the hours with new messages, deliveries or errors.

    Connections are added to the minutes for which they have not been counted.
    """
    from amqproxy.pipeline.rollup import hours_of, rollup_minute, without_contents

    recounted = _touched(ledger, "rollup", CONTENTS)
    tables = Tables.of(ledger)
    opened = ledger.open_files("connections")
    replaced_lives = _replaced(spark, ledger)
    lives, before_lives = _lives(spark, ledger)
    gaps = _gaps(spark, ledger)
    found = hours_of(lives, before_lives, gaps, replaced_lives).collect()
    lived = {(row.date.isoformat(), row.hour) for row in found}
    if not recounted and not lived:
        return Done(job="rollup")
    replaced = [file for file in tables.files("rollup_minute") if hour_of(file) in recounted | lived]
    again = [file for file in replaced if hour_of(file) in recounted]
    before = without_contents(tables.read_files(spark, "rollup_minute", again)) if again else None
    if kept := [file for file in replaced if hour_of(file) not in recounted]:
        others = tables.read_files(spark, "rollup_minute", kept).select(*TABLES["rollup_minute"].names)
        before = others if before is None else before.unionAll(others)
    given = [*(tables.read(spark, name, hours=recounted) for name in CONTENTS), lives]
    if before is not None:
        given.append(before)
    small = in_one_partition(*given)
    messages, deliveries, errors, lives, *more = small or given
    rows = rollup_minute(
        messages,
        deliveries,
        lives,
        errors,
        before=more[0] if more else None,
        counted=before_lives,
        gaps=gaps,
        replaced=replaced_lives,
    )
    stage(ledger, "rollup_minute", rows, in_one_partition=small is not None)
    kept_lives = tables.read_files(spark, "connections", opened).select(*COUNTED_LIVES.names)
    write_state(kept_lives.coalesce(1), f"{ledger.path}/{ledger.carry(COUNTED)}", COUNTED_LIVES)
    carried, through = [COUNTED, GAPS], ledger.contents.batch
    return _commit(ledger, "rollup", ["rollup_minute"], removed=replaced, through=through, carried=carried)


def _lives(spark: SparkSession, ledger: Ledger) -> tuple[DataFrame, DataFrame | None]:
    """Return the connections to be counted: the newly ended, and the open; and those that were counted while open."""
    tables = Tables.of(ledger)
    done = ledger.contents.through.get("rollup", 0)
    files = [file for file in tables.files("connections") if is_open_file(file) or batch_of(file) > done]
    lives = tables.read_files(spark, "connections", files).where(f"batch > {done}")
    counted = _carried(spark, ledger, COUNTED, COUNTED_LIVES)
    again = ledger.read_again("settle", after=done)
    return lives, without_chains(counted, again) if again and counted is not None else counted


def _replaced(spark: SparkSession, ledger: Ledger) -> Replaced | None:
    """Return the connections that were counted, and have been replaced since, with the gaps that were known then."""
    from amqproxy.pipeline.rollup import Replaced

    again = ledger.read_again("settle", after=ledger.contents.through.get("rollup", 0))
    lives = _uncounted(spark, ledger)
    if again and (opened := _carried(spark, ledger, COUNTED, COUNTED_LIVES)) is not None:
        opened = only_chains(opened, again)
        lives = opened if lives is None else lives.unionByName(opened)
    return None if lives is None else Replaced(lives, _carried(spark, ledger, GAPS, GAPS_OF_CHAINS))


def _carried(spark: SparkSession, ledger: Ledger, name: str, columns: StructType) -> DataFrame | None:
    """Return what `rollup` has carried."""
    path = ledger.carried("rollup", name)
    return None if path is None else read_state(spark, columns, f"{ledger.path}/{path}")


def _gaps(spark: SparkSession, ledger: Ledger) -> DataFrame:
    """Return the gaps in chains, of the new events and of those before, as carried to the next run.

    Those of a chain that was read again are replaced when its connections are, and not between.
    """
    done, settled = (ledger.contents.through.get(job, 0) for job in ("rollup", "settle"))
    tables = Tables.of(ledger)
    gaps = spark.sql(_NEW_GAPS, events=tables.read(spark, "events", after=done))
    again = ledger.read_again("settle", after=done)
    if unsettled := ledger.read_again("ingest", after=settled) | again:
        gaps = without_chains(gaps, unsettled)
    if again:
        gaps = gaps.unionByName(spark.sql(_NEW_GAPS, events=only_chains(tables.read(spark, "events"), again)))
    if (before := _carried(spark, ledger, GAPS, GAPS_OF_CHAINS)) is not None:
        gaps = gaps.unionByName(without_chains(before, again) if again else before)
    carried = f"{ledger.path}/{ledger.carry(GAPS)}"
    write_state(gaps.coalesce(1), carried, GAPS_OF_CHAINS)
    return read_state(spark, GAPS_OF_CHAINS, carried)


_NEW_GAPS = """
    SELECT chain, ts_ns - latency_ns AS from_ns, ts_ns AS to_ns
    FROM {events} WHERE type = 'lost' AND kind = 'clock' AND latency_ns > 0
"""


def anomalies(spark: SparkSession, ledger: Ledger, settings: Settings) -> Done:
    """Evaluate all hours again, from the first with new rows on."""
    from amqproxy.pipeline import anomalies as found
    from amqproxy.pipeline.anomaly_history import COUNTED, MEASURED, RECORDED, history

    hours = _touched(ledger, "anomalies", COUNTED)
    if not hours:
        return Done(job="anomalies")
    tables = Tables.of(ledger)
    first = min(hours)
    judged = found.AnomalySettings(zone=settings.zone)
    starts = [_start_ns(hour) // SECOND for hour in sorted(hours)]
    measured, recorded = history(spark, ledger, starts, judged)
    rows = found.anomalies(measured, recorded, start_ns=_start_ns(first), settings=judged)
    stage(ledger, "anomalies", rows)
    replaced = [file for file in tables.files("anomalies") if hour_of(file) >= first]
    carried, through = [MEASURED, RECORDED], ledger.contents.batch
    return _commit(ledger, "anomalies", ["anomalies"], removed=replaced, through=through, carried=carried)


def findings(spark: SparkSession, ledger: Ledger, lookback_ns: int = DAY_NS) -> Done:
    """Find findings again in the hours from the first with new events on.

    The `lookback_ns` before them are read too, for the declarations and connections there.
    """
    from amqproxy.pipeline.findings import findings as found

    hours = _touched(ledger, "findings", ("events",))
    if not hours:
        return Done(job="findings")
    tables = Tables.of(ledger)
    first = min(hours)
    since_ns = _start_ns(first)
    events = tables.read(spark, "events").where(f"ts_ns >= {since_ns - lookback_ns}")
    stage(ledger, "findings", found(events, since_ns=since_ns))
    replaced = [file for file in tables.files("findings") if hour_of(file) >= first]
    return _commit(ledger, "findings", ["findings"], removed=replaced, through=ledger.contents.batch)


def compact(spark: SparkSession, ledger: Ledger, names: Iterable[str] | None = None) -> Done:
    """Merge the small files of each hour of each table."""
    tables = Tables.of(ledger)
    removed: list[str] = []
    written = []
    newest: dict[str, int] = {}
    for name in tables.names() if names is None else names:
        by_hour: dict[tuple[str, int], list[str]] = {}
        for file in tables.files(name):
            if is_open_file(file):
                continue
            by_hour.setdefault(hour_of(file), []).append(file)
        small = [file for files in by_hour.values() for file in _small(ledger, files)]
        if small:
            stage(ledger, name, tables.read_files(spark, name, small))
            removed += small
            written.append(name)
            for file in small:
                hour = file.rpartition("/")[0]
                newest[hour] = max(newest.get(hour, 0), batch_of(file))
    if not removed:
        return Done(job="compact")
    return _commit(ledger, "compact", written, removed=removed, newest=newest)


def _small(ledger: Ledger, files: list[str]) -> list[str]:
    """Return the files that are worth merging."""
    if len(files) < 2:
        return []
    small = [file for file in files if ledger.size(file) < COMPACT_BYTES]
    return small if len(small) > 1 else []


def _touched(ledger: Ledger, job: str, names: Iterable[str]) -> Hours:
    """Return the hours with new rows since the job's last run."""
    done = ledger.contents.through.get(job, 0)
    tables = Tables.of(ledger)
    emptied = {hour for hour, batch in ledger.contents.emptied.items() if batch > done}
    return {hour_of(file) for name in names for file in tables.files(name) if batch_of(file) > done} | {
        hour_of(f"{hour}/") for hour in emptied if hour.startswith(tuple(f"{name}/" for name in names))
    }


def _start_ns(hour: tuple[str, int]) -> int:
    return int(datetime.fromisoformat(f"{hour[0]}T{hour[1]:02}:00:00").replace(tzinfo=UTC).timestamp()) * SECOND


def _commit(
    ledger: Ledger,
    job: str,
    tables: Iterable[str],
    *,
    captures: Sequence[str] = (),
    removed: Sequence[str] = (),
    through: int = 0,
    carried: Iterable[str] = (),
    again: Iterable[str] = (),
    newest: Mapping[str, int] | None = None,
    newest_open: Mapping[str, int] | None = None,
) -> Done:
    commit = ledger.commit(
        job,
        tables,
        captures=captures,
        removed=removed,
        through=through,
        carried=carried,
        again=again,
        newest=newest,
        newest_open=newest_open,
    )
    rows = {name: sum(map(ledger.rows, files)) for name, files in commit.files.items()}
    return Done(job=job, batch=commit.batch, rows=rows, captures=len(captures), removed=len(removed))


# --- all of it

Tell = Callable[[str], None]
"""Called with the name of the job that starts."""


def run(
    spark: SparkSession, ledger: Ledger, files: Sequence[str], settings: Settings, tell: Tell = lambda _: None
) -> list[Done]:
    """Run all jobs on new rows, in order."""
    done = []
    jobs: dict[str, Callable[[], Done]] = {
        "ingest": lambda: ingest(spark, ledger, files, settings),
        "settle": lambda: settle(spark, ledger, settings),
        "link": lambda: link(spark, ledger, settings),
        "rollup": lambda: rollup(spark, ledger),
        "findings": lambda: findings(spark, ledger),
        "anomalies": lambda: anomalies(spark, ledger, settings),
    }
    for name, job in jobs.items():
        tell(name)
        done.append(job())
    return done


def new_captures(ledger: Ledger, paths: Sequence[str]) -> Found:
    """Return the new captures in these paths, directories and patterns; raise `CaptureError` if there are none."""
    from amqproxy.pipeline.chains import find

    return ledger.find(find(paths))
