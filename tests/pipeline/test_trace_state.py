"""What is carried from run to run: several runs see what one run sees."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amqproxy.capture.files import files_of
from amqproxy.capture.pcap import Packet
from amqproxy.pipeline.chain_reading import ChainReading
from amqproxy.pipeline.event_columns import SCHEMA
from amqproxy.pipeline.event_reading import EventReading
from amqproxy.pipeline.trace_state import Unreadable, dumped, loaded, written_by
from tests.amqp010 import recorded as amqp010
from tests.capture import golden, shared_captures
from tests.example_count import example_count
from tests.pipeline.event_frames import unstamped

pytestmark = pytest.mark.once

HEAD = written_by("0/1")


class Piece:
    """Some packets of a capture, in place of a file."""

    source = "piece"

    def __init__(self, packets: Sequence[Packet]) -> None:
        self._packets = packets

    def packets(self, *listeners: object) -> Iterator[Packet]:
        return iter(self._packets)


Row = dict[str, Any]


def one_run(
    pieces: Sequence[Piece], states: dict[str | None, list[bytes]] | None = None, *, is_end: bool = False
) -> tuple[list[Row], dict[str | None, list[bytes]]]:
    """The events of a run, and what it carries over."""
    reading = EventReading(ChainReading("chain"), body=8)
    if states is not None:
        reading.resume(states)
    batches = list(reading.batches(pieces, is_end=is_end))  # type: ignore[arg-type]
    carried: dict[str | None, list[bytes]] = {}
    for row in pa.Table.from_batches(reading.state_batches(), SCHEMA).to_pylist():
        carried.setdefault(row["connection_id"], []).append(row["state"])
    return pa.Table.from_batches(batches, SCHEMA).to_pylist(), carried


def runs(packets: Sequence[Packet], cuts: Sequence[int]) -> list[Row]:
    """The events of several runs, each of which goes on where the one before has stopped."""
    rows: list[Row] = []
    states: dict[str | None, list[bytes]] | None = None
    bounds = [0, *sorted(cuts), len(packets)]
    for number, (start, stop) in enumerate(pairwise(bounds)):
        found, states = one_run([Piece(packets[start:stop])], states, is_end=number == len(cuts))
        rows += found
    return rows


def same(one: list[Row], other: list[Row]) -> bool:
    """But for stamps: a row has what became of it only if both are in one batch."""
    return [repr(unstamped(row)) for row in one] == [repr(unstamped(row)) for row in other]


CAPTURES = {path.name: list(files_of(path)[0].packets()) for path in (*golden.captures(), *shared_captures.files())}
SMALL = {name: packets for name, packets in CAPTURES.items() if len(packets) < 2000}


def test_two_runs_see_what_one_run_sees_wherever_the_capture_is_cut() -> None:
    for path in golden.captures():
        packets = CAPTURES[path.name]
        whole = runs(packets, [])
        for cut in range(1, len(packets), max(1, len(packets) // 10)):
            assert same(runs(packets, [cut]), whole), (path.name, cut)


def test_connections_of_0_10_go_on_in_the_next_run() -> None:
    for path in amqp010.captures():
        packets = list(files_of(path)[0].packets())
        whole = runs(packets, [])
        for cut in range(1, len(packets), max(1, len(packets) // 8)):
            assert same(runs(packets, [cut]), whole), (path.name, cut)


@settings(max_examples=example_count(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_number_of_runs_sees_what_one_run_sees(data: st.DataObject) -> None:
    packets = SMALL[data.draw(st.sampled_from(sorted(SMALL)))]
    cuts = data.draw(st.lists(st.integers(0, len(packets)), max_size=4))
    assert same(runs(packets, cuts), runs(packets, []))


def test_state_that_cannot_be_read_is_said_and_connections_are_joined() -> None:
    packets = CAPTURES["confirms.pcapng"]
    half = len(packets) // 2
    _, states = one_run([Piece(packets[:half])])
    whole = runs(packets, [])
    of_chain = {None: [b"amqproxy 0.0 state 0\n" + states[None][0]]}
    of_connection = {name: [each[:-9] for each in state] if name else state for name, state in states.items()}
    for damaged, why in (
        (states | of_chain, "it was written by"),
        (of_connection, "it is damaged"),
        ({}, "there are 0"),
    ):
        rows, _ = one_run([Piece(packets[half:])], damaged, is_end=True)
        (lost,) = [row for row in rows if row["type"] == "lost" and row["stream"] is None]
        assert (lost["kind"], why in lost["text"]) == ("state", True), lost["text"]
        assert next(row["outcome"] for row in rows if row["type"] == "connection") == "joined"
        ids = {row["connection_id"] for row in whole}
        if damaged is of_connection:
            assert {row["connection_id"] for row in rows if row["stream"] is not None} <= ids


def called(*given: object) -> None:
    raise AssertionError("called")


@pytest.mark.parametrize(
    "value",
    [os.system, called, eval, getattr, Path, pickle.loads, ChainReading._warn],
    ids=lambda value: value.__name__,
)
def test_nothing_is_loaded_that_is_never_carried(value: Any) -> None:
    class Hostile:
        def __reduce__(self) -> Any:
            return value, ("x",)

    for each in (Hostile(), value):
        with pytest.raises(Unreadable, match=r"never carried|damaged"):
            loaded(HEAD + pickle.dumps(each), HEAD, {})


def test_methods_of_what_is_carried_are_not_all_to_be_had() -> None:
    from amqproxy.pipeline import trace_state

    class Hostile:
        def __reduce__(self) -> Any:
            return trace_state._bound, ("x", "__class__")

    with pytest.raises(Unreadable):
        loaded(HEAD + pickle.dumps(Hostile()), HEAD, {})
    assert loaded(dumped({"a": (1, b"x")}, HEAD, {}), HEAD, {}) == {"a": (1, b"x")}
