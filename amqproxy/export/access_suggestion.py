"""The minimal access list that would have allowed everything in captures, as the text of a config file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import msgspec

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.capture.connection_dry_run import DryRunResult
from amqproxy.capture.decoded import Decoded, DecodedFrames, StreamEnded
from amqproxy.capture.dry_run import DryRun
from amqproxy.configuration.config_file import read
from amqproxy.export.access_evidence import Access, AccessEvidence, Evidence, ObservedAccess, Who
from amqproxy.export.shown_text import moment
from amqproxy.rules.access.access_list import ACTS, Line, parse
from amqproxy.rules.context import Client, CommandContext
from amqproxy.rules.matching.generated_names import exact_pattern
from amqproxy.rules.matching.operations import Operation
from amqproxy.taps.text import counted

RULE = "access seen in captures"

MAX_COVERS = 10_000
"""Distinct sets of lines that allow the same operation; beyond that, all lines of a set are kept."""

MAX_CACHED = 8192
"""Operations whose lines are cached while determining the necessary ones."""

Captures = Callable[[], Iterable[Decoded]]
"""Reads the captures from the beginning, each time it is called."""


class DoneBy(NamedTuple):
    """The operations of one command of a client, with their evidence."""

    client: Client
    command: Command
    done: tuple[Operation, ...]
    evidence: Evidence


class Suggestion(msgspec.Struct, frozen=True):
    """A line of the list: its client, its text, and the evidence of each of its acts."""

    who: Who
    text: str
    acts: tuple[tuple[str, Evidence], ...]
    is_widened: bool

    @property
    def first(self) -> Evidence:
        return min((evidence for _, evidence in self.acts), key=lambda each: each.ts_ns)


class SuggestedAccess(msgspec.Struct, frozen=True):
    """The lines, and the number of commands and connections that they are based on."""

    lines: tuple[Suggestion, ...]
    commands: int
    connections: int


def suggested(captures: Captures) -> SuggestedAccess:
    """Return the minimal list, of which no line and no act can be omitted; reads the captures twice."""
    evidence = AccessEvidence()
    for decoded in captures():
        evidence.feed(decoded)
    return _suggested(evidence, lambda: _operations(captures()))


def suggested_of(commands: Iterable[DoneBy], connections: int) -> SuggestedAccess:
    """Return the minimal list for commands of `connections` connections, counted before; iterates over them twice."""
    kept = list(commands)
    evidence = AccessEvidence()
    evidence.connections = connections
    for each in kept:
        evidence.add(each.client, each.done, each.evidence)
    return _suggested(evidence, lambda: _operations_of(kept))


def _suggested(
    evidence: AccessEvidence, operations: Callable[[], Iterable[tuple[CommandContext, Operation]]]
) -> SuggestedAccess:
    entries = list(evidence.entries())
    if entries:
        needed = _needed(entries, operations())
        entries = [each for place, each in enumerate(entries) if place in needed]
    return SuggestedAccess(tuple(_lines(entries)), evidence.commands, evidence.connections)


def refused_of(access: SuggestedAccess, commands: Iterable[DoneBy]) -> int:
    """Return how many of these commands the list would refuse."""
    lines = _LinesByClient((each.who, each.text) for each in access.lines)
    return sum(
        each.evidence.count
        for each in commands
        if any(not lines.cover(context, operation) for context, operation in _operations_of([each]))
    )


def _operations_of(commands: Iterable[DoneBy]) -> Iterator[tuple[CommandContext, Operation]]:
    for each in commands:
        context = CommandContext(sender=CLIENT, command=each.command, client=each.client)
        yield from ((context, operation) for operation in each.done if not operation.is_implied)


def _lines(entries: Iterable[Access]) -> Iterator[Suggestion]:
    """Yield one line for each client and combination of objects, with all acts of that client on them."""
    found: dict[tuple[Who, tuple[tuple[str, str], ...]], list[Access]] = {}
    for each in entries:
        found.setdefault((each.who, each.objects), []).append(each)
    order = list(ACTS)
    for (who, objects), alike in sorted(found.items(), key=lambda each: _rank(each, order)):
        alike.sort(key=lambda each: order.index(each.act))
        yield Suggestion(
            who,
            _text(who, ", ".join(each.act for each in alike), objects),
            tuple((each.act, each.evidence) for each in alike),
            any(each.is_widened for each in alike),
        )


def _rank(
    found: tuple[tuple[Who, tuple[tuple[str, str], ...]], list[Access]], order: list[str]
) -> tuple[Who, bool, int, tuple[tuple[str, str], ...]]:
    """Return the sort key of a line: connecting first, then exchanges and queues, in the order of the acts."""
    (who, objects), alike = found
    return who, bool(objects), min(order.index(each.act) for each in alike), objects


def _text(who: Who, acts: str, objects: tuple[tuple[str, str], ...]) -> str:
    return f"allow {_whom(who)} to {acts}" + "".join(f' {key} "{pattern}"' for key, pattern in objects)


def _whom(who: Who) -> str:
    given = {"user": exact_pattern(who.user) if who.user else "", "address": who.address}
    given["vhost"] = exact_pattern(who.vhost) if who.vhost else ""
    return " ".join(f'{key} "{pattern}"' for key, pattern in given.items() if pattern)


# --- necessary lines


def _needed(entries: list[Access], operations: Iterable[tuple[CommandContext, Operation]]) -> set[int]:
    """Return the places of the lines that remain after omitting each redundant one; each line has one act.

    A line widened because a key was unknown in advance may allow the operations of other lines.
    """
    lines = _LinesByClient((each.who, _text(each.who, each.act, each.objects)) for each in entries)
    covers: dict[frozenset[int], None] = {}
    needed: set[int] = set()
    cached: dict[tuple[str, str, str, Operation], frozenset[int]] = {}
    for context, operation in operations:
        client = context.client
        key = (client.user, client.vhost, client.address, operation)
        cover = cached.get(key)
        if cover is None:
            if len(cached) >= MAX_CACHED:
                cached.clear()
            cover = cached[key] = lines.cover(context, operation)
            if len(cover) == 1 or len(covers) >= MAX_COVERS:
                needed |= cover
            else:
                covers[cover] = None
    undecided = {place for cover in covers if not cover & needed for place in cover} - needed
    for place in sorted(undecided):
        left = (needed | undecided) - {place}
        if all(cover & left for cover in covers):
            undecided.discard(place)
    return needed | undecided


class _LinesByClient:
    """Lines of a list indexed by the user or address that they name, so that few are checked for one client."""

    def __init__(self, entries: Iterable[tuple[Who, str]]) -> None:
        kept = list(entries)
        self._lines: dict[tuple[str, str], list[tuple[int, Line]]] = {}
        for place, ((who, _), line) in enumerate(zip(kept, parse("\n".join(text for _, text in kept)), strict=True)):
            self._lines.setdefault((who.user, who.address), []).append((place, line))

    def cover(self, context: CommandContext, operation: Operation) -> frozenset[int]:
        """Return the places of the lines that allow an operation."""
        client = context.client
        names = {(client.user, ""), ("", client.address), ("", "")}
        lines = chain.from_iterable(self._lines.get(each, ()) for each in names)
        return frozenset(place for place, line in lines if line.is_for(context) and line.holds_of(operation))


def _operations(decoded: Iterable[Decoded]) -> Iterator[tuple[CommandContext, Operation]]:
    observed: dict[int, ObservedAccess] = {}
    for each in decoded:
        if isinstance(each, StreamEnded):
            observed.pop(each.stream, None)
        elif isinstance(each, DecodedFrames):
            access = observed.get(each.stream)
            if access is None:
                access = observed[each.stream] = ObservedAccess(each.stream, each.connection)
            for client, command, done in access.feed(each):
                context = CommandContext(sender=CLIENT, command=command, client=client)
                yield from ((context, operation) for operation in done if not operation.is_implied)


# --- as a config file


def as_toml(access: SuggestedAccess, captures: Iterable[str]) -> str:
    """Return the config in TOML."""
    lines = "\n".join(_list(access))
    return f"{_about(access, captures)}\n[[rules]]\nname = \"{RULE}\"\naction = \"acl\"\nlines = '''\n{lines}\n'''\n"


def as_yaml(access: SuggestedAccess, captures: Iterable[str]) -> str:
    """Return the config in YAML."""
    lines = "\n".join(f"      {each}".rstrip() for each in _list(access))
    return f"{_about(access, captures)}\nrules:\n  - name: {RULE}\n    action: acl\n    lines: |\n{lines}\n"


def _about(access: SuggestedAccess, captures: Iterable[str]) -> str:
    names = "\n".join(f"#   {_plain(each)}" for each in captures)
    commands, connections = counted(access.commands, "command"), counted(access.connections, "connection")
    return (
        f"# The least access under which everything in these captures would have passed, as `amqproxy rules suggest`\n"
        f"# found it: {commands} of {connections} in\n{names}\n"
        "# It shows what was done, not what should be: read each line before you rely on it.\n"
    )


def _list(access: SuggestedAccess) -> Iterator[str]:
    last: Who | None = None
    for each in access.lines:
        if each.who != last:
            if last is not None:
                yield ""
            yield f"# {_described(each.who)}"
            last = each.who
        yield f"# {_evidence(each)}"
        yield each.text
    yield ""
    yield "otherwise deny"


def _described(who: Who) -> str:
    user = f"user {_plain(who.user)}" if who.user else f"user unknown, since its login is not there; from {who.address}"
    return f"{user}, {f'vhost {_plain(who.vhost)}' if who.vhost else 'vhost unknown'}"


def _evidence(line: Suggestion) -> str:
    first = line.first
    time = moment(first.ts_ns).partition(".")[0]
    counts = ", ".join(f"{evidence.count} {act}" for act, evidence in line.acts)
    where = f"first {time} on #{first.stream} {_plain(first.connection)}"
    return f"{counts}; {where}{'; too many names to list' if line.is_widened else ''}"


def _plain(text: str) -> str:
    """Return a text that is safe in a comment of both formats."""
    return "".join(each if each.isprintable() and each != "'" else "?" for each in text)


# --- check


class AccessCheck:
    """Dry run of captures under a config, with the code of `rules test`; `refused` counts commands."""

    def __init__(self, text: str, path: Path) -> None:
        self._dry_run = DryRun(read(text, path).rules)
        self.refused = 0

    @property
    def commands(self) -> int:
        return self._dry_run.commands

    def play(self, decoded: Iterable[Decoded]) -> Iterator[DryRunResult]:
        """Yield the results of commands that would have been refused."""
        for each in decoded:
            if isinstance(each, StreamEnded):
                self._dry_run.end(each.stream)
            elif isinstance(each, DecodedFrames):
                for result in self._dry_run.play(each):
                    if any(what.startswith(("refused", "dropped")) for what in result.what):
                        self.refused += 1
                        yield result
