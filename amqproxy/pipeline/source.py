"""The Spark data source `amqp`: captures → the tables `frames` and `events`; see docs/pipeline.md for its options.

    register(spark)
    spark.read.format("amqp").option("table", "events").load("captures/*.pcapng*")

A partition is a file of a recording or a chain of files for `frames`, and a chain, or a share of one, for `events`;
small ones are put together.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from amqproxy.capture.files import CaptureFile
from amqproxy.capture.second_engine import SecondEngine
from amqproxy.capture.selection.conversation import Conversation
from amqproxy.capture.selection.selection import Selection
from amqproxy.capture.selection.time_window import TimeWindow, moment
from amqproxy.capture.share import Share
from amqproxy.capture.warnings import CaptureError, OnWarning
from amqproxy.pipeline import storage
from amqproxy.pipeline.chain_reading import ChainReading
from amqproxy.pipeline.chains import COMPRESSED, Chain, capture_name, chains, find
from amqproxy.pipeline.event_reading import EventReading
from amqproxy.pipeline.frame_rows import frame_batches
from amqproxy.pipeline.schema import EVENTS, FRAMES
from amqproxy.pipeline.trace_state import shares_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import dataset
    from pyspark.sql import SparkSession

NAME = "amqp"

MAX_SHARES = 64

AUTO = 0
"""Number of shares for `SHARES` of each chain that is large when it is first read; later runs read as many."""

SHARES = 4
SHARED_BYTES = 32 * 1024 * 1024
"""Size of a chain from which it is shared; each share reads all of it, which costs 1 % of decoding it."""

PARTITION_BYTES = 128 * 1024 * 1024
"""Approximate size up to which small files are combined into a partition, in bytes."""

LEAST_PARTITION_BYTES = 4 * 1024 * 1024
"""Minimum size of a partition, for small inputs."""

FILE_COST = 512 * 1024
"""Cost of each file in addition to its bytes."""

MANY_PARTITIONS = 64
"""Approximate number of partitions for small inputs."""

_BOOLEANS = {"true": True, "false": False}


def register(spark: SparkSession) -> None:
    """Register `spark.read.format("amqp")` in a session."""
    spark.dataSource.register(CaptureSource)


class SourceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options for reading captures; raise `ValueError` for invalid ones.

    See docs/pipeline.md.
    """

    paths: tuple[str, ...]
    table: str = "frames"
    columns: tuple[str, ...] = ()
    chains: str = "auto"
    leg: str = "client"
    body: int = 0
    fields: bool = False
    findings: str = "reported"
    start: str | None = None
    end: str | None = None
    follow: str | None = None
    keylog: str | None = None
    shares: int = 1
    state: str | None = None
    carry: bool = False

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"option {name}: {getattr(self, name)!r} is not one of {', '.join(allowed)}")
        unknown = [name for name in self.columns if name not in _TABLES[self.table].names]
        if unknown or len(set(self.columns)) < len(self.columns):
            what = f"{self.table} has no {', '.join(unknown)}" if unknown else "each only once"
            raise ValueError(f"option columns: {what}")
        if not 1 <= self.shares <= MAX_SHARES and not (self.shares == AUTO and self.is_carrying):
            raise ValueError(f"option shares: {self.shares} is not from 1 to {MAX_SHARES}")
        if self.body < 0:
            raise ValueError(f"option body: {self.body} is not a number of bytes")
        for name in ("start", "end"):
            text = getattr(self, name)
            try:
                _moment(text)
            except ValueError as error:
                raise ValueError(f"option {name}: {error}") from None
        if self.fields and self.table != "events":
            raise ValueError("option fields is of the table events")
        if self.is_carrying:
            if self.table != "events":
                raise ValueError("options state and carry are of the table events: frames need no state")
            if self.start or self.end or self.follow or self.keylog:
                raise ValueError("options state and carry are without start, end, follow and keylog: read all, or part")
        if self.shares > 1 and (self.follow or self.start or self.end or self.keylog or self.leg == "both"):
            raise ValueError("option shares is without follow, start, end, keylog, and leg both")

    @property
    def schema(self) -> StructType:
        """Columns that are read."""
        table = _TABLES[self.table]
        return StructType([table[name] for name in self.columns]) if self.columns else table

    @property
    def is_carrying(self) -> bool:
        """Whether the state at the end is passed to the next run."""
        return self.carry or self.state is not None

    def selection(self) -> Selection:
        """Return the selection, for one reading."""
        window = None
        if self.start is not None or self.end is not None:
            window = TimeWindow(_moment(self.start), _moment(self.end))
        return Selection(None if self.follow is None else Conversation(self.follow), window)


_TABLES = {"frames": FRAMES, "events": EVENTS}
_CHOICES = {
    "table": tuple(_TABLES),
    "leg": ("client", "upstream", "both"),
    "chains": ("auto", "directory", "file", "one"),
    "findings": ("reported", "counted", "none"),
}


def _moment(text: str | None) -> Any:
    return None if text is None else moment(text)


def options_of(given: Mapping[str, str]) -> SourceOptions:
    """Return the options of a read, as passed by Spark; raise `ValueError` with the error."""
    values: dict[str, Any] = {name: text for name, text in given.items() if name not in ("path", "paths")}
    unknown = sorted(set(values) - set(SourceOptions.__struct_fields__))
    if unknown:
        known = ", ".join(name for name in SourceOptions.__struct_fields__ if name != "paths")
        raise ValueError(f"unknown option {unknown[0]}; there are {known}")
    if values.get("shares") == "auto":
        values["shares"] = str(AUTO)
    for name in ("body", "shares"):
        if name in values and not values[name].isdecimal():
            raise ValueError(f"option {name}: {values[name]!r} is not a number")
        if name in values:
            values[name] = int(values[name])
    if "columns" in values:
        values["columns"] = tuple(name.strip() for name in values["columns"].split(","))
    for name in ("carry", "fields"):
        if name in values:
            if values[name].lower() not in _BOOLEANS:
                raise ValueError(f"option {name}: {values[name]!r} is not true or false")
            values[name] = _BOOLEANS[values[name].lower()]
    paths = tuple(json.loads(given["paths"])) if given.get("paths") else ()
    paths += (given["path"],) if given.get("path") else ()
    if not paths:
        raise ValueError("nothing to read: give load() the path of a capture, a directory or a pattern")
    return SourceOptions(paths=paths, **values)


@dataclass(frozen=True)
class CapturePart:
    """Unit of reading: files of a chain, or share `share` of `shares` of them."""

    chain: str
    files: tuple[str, ...]
    share: int = 0
    shares: int = 1


@dataclass(frozen=True)
class CapturePartition(InputPartition):
    """Partition that one task reads."""

    parts: tuple[CapturePart, ...]

    @property
    def size(self) -> int:
        """Bytes of the files, or of this share of them."""
        return sum(_size(file) // part.shares for part in self.parts for file in part.files)


class CaptureSource(DataSource):
    """Data source of `spark.read.format("amqp")`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return options_of(self.options).schema

    def reader(self, schema: StructType) -> CaptureReader:
        return CaptureReader(options_of(self.options))


class CaptureReader(DataSourceReader):
    """Reads captures, with the rows of each partition in order."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[CapturePartition]:
        options = self._options
        try:
            files = find(options.paths)
        except CaptureError as error:
            raise ValueError(str(error)) from None
        found = chains(files, options.chains)  # type: ignore[arg-type]
        return partitions_of(parts_of(found, options))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, CapturePartition)
        options = self._options
        states: States = {}
        if options.state is not None:
            states = states_of(options.state, {part.chain for part in partition.parts})
        for part in partition.parts:
            rows = read_part(part, options, states.get(part.chain))
            yield from (batch.select(options.columns) for batch in rows) if options.columns else rows


def parts_of(found: Sequence[Chain], options: SourceOptions) -> list[CapturePart]:
    """Return the parts of chains that can be read independently."""
    parts = []
    carried = carried_shares(options.state) if options.shares == AUTO and options.state is not None else {}
    for chain in found:
        units = [chain.files]
        shares = options.shares or carried.get(chain.name) or _shares(chain, options)
        if options.table == "frames" and chain.is_recording:  # its files begin with whole frames
            units = [(file,) for file in chain.files]
        parts += [CapturePart(chain.name, files, share, shares) for files in units for share in range(shares)]
    return parts


def _shares(chain: Chain, options: SourceOptions) -> int:
    """Return the number of shares of a chain that is read for the first time."""
    return SHARES if options.leg != "both" and sum(map(_size, chain.files)) >= SHARED_BYTES else 1


def partitions_of(parts: Sequence[CapturePart]) -> list[CapturePartition]:
    """Combine parts, so that a partition has enough to read; a large part is alone."""
    sizes = [sum(_size(file) + FILE_COST for file in part.files) // part.shares for part in parts]
    room = min(PARTITION_BYTES, max(LEAST_PARTITION_BYTES, sum(sizes) // MANY_PARTITIONS))
    together: list[list[CapturePart]] = []
    left = 0
    for part, size in zip(parts, sizes, strict=True):
        if size > left or not together:
            together.append([])
            left = room
        together[-1].append(part)
        left -= size
    return [CapturePartition(tuple(each)) for each in together]


def _size(file: str) -> int:
    try:
        return storage.state_of(file).size
    except OSError:
        return 0


def read_part(part: CapturePart, options: SourceOptions, state: ChainState | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part; `state` is the state of the chain from an earlier run."""
    if options.table == "events":
        yield from _events_of(part, options, state)
    else:
        yield from frames_of(part, options)


def frames_of(part: CapturePart, options: SourceOptions, **batches: Any) -> Iterator[pa.RecordBatch]:
    """Yield the frames of a part; `batches` are the batch options of `frame_batches`."""
    share = Share(part.share, part.shares, by_packet=True) if part.shares > 1 else None
    with ExitStack() as stack:
        reading = _reading(stack, part, options, share)
        files = [_file(file) for file in part.files]
        yield from frame_batches(reading, files, options.selection(), body=options.body, share=share, **batches)


def _events_of(part: CapturePart, options: SourceOptions, state: ChainState | None) -> Iterator[pa.RecordBatch]:
    share = Share(part.share, part.shares) if part.shares > 1 else None
    with ExitStack() as stack:
        reading = _reading(stack, part, options, share)
        events = EventReading(
            reading,
            body=options.body,
            fields=options.fields,
            findings=options.findings != "none",
            counts_findings=options.findings == "counted",
        )
        if state:
            events.resume(state)
        files = [_file(file) for file in part.files]
        yield from events.batches(files, options.selection(), is_end=not options.is_carrying)
        if options.is_carrying:
            yield from events.state_batches()


def _reading(stack: ExitStack, part: CapturePart, options: SourceOptions, share: Share | None) -> ChainReading:
    engine_of = None if share is not None or options.is_carrying else partial(_engine, stack, options.keylog)
    return ChainReading(part.chain, leg=options.leg, engine_of=engine_of, share=share)


def _file(file: str) -> CaptureFile:
    """Return a capture, which may have been completed or compressed since it was found."""
    if storage.is_remote(file):
        return CaptureFile(storage.opened(file))
    name = capture_name(file)
    is_there = any(Path(each).exists() for each in (file, name, *(name + ending for ending in COMPRESSED)))
    return CaptureFile(Path(file), is_in_directory=is_there)


ChainState = dict[str | None, list[bytes]]
"""State of a chain from an earlier run, by connection_id; `None` is the key of the shared state."""

States = dict[str, ChainState]
"""By chain."""


def states_of(path: str, names: Collection[str]) -> States:
    """Return the state of these chains from an earlier run: the rows of type state in `path`, which is Parquet.

    They are read at once, since there may be ten thousand chains with little state each.
    """
    from pyarrow import dataset

    kept = _state_rows(path)
    if kept is None:
        return {}
    is_wanted = dataset.field("chain").isin(list(names)) & dataset.field("state").is_valid()
    rows = kept.to_table(columns=["chain", "connection_id", "state"], filter=is_wanted)
    found: States = {}
    for chain, name, state in zip(*(rows.column(each).to_pylist() for each in rows.column_names), strict=True):
        found.setdefault(chain, {}).setdefault(name, []).append(state)
    return found


def carried_shares(path: str) -> dict[str, int]:
    """Return the number of shares that each chain was read in, according to its state from an earlier run."""
    found = {}
    kept = _state_rows(path)
    for rows in () if kept is None else kept.to_batches(columns=["chain", "state"]):
        for chain, state in zip(rows.column(0).to_pylist(), rows.column(1), strict=True):
            if chain not in found and state.is_valid:
                found[chain] = shares_of(state.as_buffer().to_pybytes())
    return found


def _state_rows(path: str) -> dataset.Dataset | None:
    """Return the rows of the Parquet files at a path; `None` if there are no files."""
    from pyarrow import dataset
    from pyarrow.fs import FileSelector, FileType

    where = storage.place(path)
    there = [where.files.get_file_info(where.path)]
    if there[0].type == FileType.Directory:
        there = where.files.get_file_info(FileSelector(where.path, recursive=True))
    files = [each.path for each in there if each.type == FileType.File and each.path.endswith(".parquet")]
    if not files:
        return None
    return dataset.dataset(files, format="parquet", filesystem=where.files, partitioning="hive")


def _engine(stack: ExitStack, keylog: str | None, notify: OnWarning) -> SecondEngine:
    """Return tshark, for capture content that amqproxy does not read; without it, a row notes the loss."""
    from amqproxy.tshark.tshark import Tshark

    return stack.enter_context(Tshark(notify, keylog=None if keylog is None else Path(keylog)))
