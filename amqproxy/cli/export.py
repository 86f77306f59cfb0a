"""`amqproxy export`: converts captures to files for other programs, and for people."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, get_args

import msgspec

from amqproxy.cli.capture_files import CaptureFiles
from amqproxy.cli.failure import MISUSED, Failure
from amqproxy.cli.options import Capture, Flag
from amqproxy.cli.printing import WorstFinding, checked_body, wanted

if TYPE_CHECKING:
    from amqproxy.capture.decoded import Decoded
    from amqproxy.capture.selection.conversation import Conversation
    from amqproxy.capture.selection.selection import Selection

Format = Literal["jsonl", "csv", "parquet", "pcapng", "html", "asyncapi"]

SUFFIXES: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
    ".pcapng": "pcapng",
    ".html": "html",
    ".htm": "html",
}

BINARY = ("parquet", "pcapng")
"""Binary formats, which are not written to standard output."""

STANDARD_OUTPUT = "-"


class ExportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options that select the exported content."""

    messages: bool
    findings: bool
    fields: str | None
    filter: str | None
    body: int
    leg: str
    selected: str
    """Description of the selection, as on the command line."""


Pieces = Callable[[Iterable["Decoded"]], Iterator[bytes]]
"""Converts decoded captures to an export, in pieces."""


def export(
    *files: Capture,
    to: Capture,
    format: Format | str | None = None,
    messages: Flag = False,
    findings: Flag = False,
    asyncapi: Flag = False,
    fields: str | None = None,
    follow: str | None = None,
    filter: str | None = None,
    start: str | None = None,
    end: str | None = None,
    leg: Literal["client", "upstream", "both"] = "client",
    body: int = 0,
    force: Flag = False,
) -> None:
    """Export captures as a table, a smaller capture, a page with plots, or AsyncAPI.

    Parameters
    ----------
    files
        The captures, in order: pcap or pcapng, plain or compressed, or directories; - is standard input.
    to
        The file to write, which appears once it is complete; - is standard output.
    format
        By default, chosen by the suffix of --to: .jsonl, .csv, .parquet, .pcapng, .html. AsyncAPI is YAML,
        or JSON in a file .json. Addons add formats of other names.
    messages
        Tables: one row per message and request, instead of per frame.
    findings
        Tables: findings instead of frames or, with --messages, between messages.
    asyncapi
        Write an AsyncAPI 3 document of exchanges, queues, bindings and message shapes: --format asyncapi.
    fields
        CSV: only these columns, as in decode --fields.
    follow
        Only one connection, or with /CHANNEL one channel of it, as in decode --follow.
    filter
        Only the commands for which this CEL expression holds.
    start
        Only frames from this time on, as in decode --start.
    end
        Only frames before this time.
    leg
        The leg of a proxy recording to export: the client's, the upstream's, or both.
    body
        Tables: also the first N bytes of each body frame, or with --messages of each body.
    force
        Replace an existing file.
    """
    if asyncapi and format not in (None, "asyncapi"):
        raise Failure(f"export: --asyncapi and --format {format} exclude each other", MISUSED)
    chosen = "asyncapi" if asyncapi else format or _by_suffix(to)
    if chosen not in _EXPORTS:
        _add_formats(chosen)
    if chosen in BINARY and str(to) == STANDARD_OUTPUT:
        raise Failure(f"export: {chosen} is a binary format: name a file", MISUSED)
    if fields is not None and chosen != "csv":
        raise Failure("export: --fields is for CSV only", MISUSED)
    if chosen in ("pcapng", "html", "asyncapi") and (messages or findings or body):
        raise Failure(f"export: --messages, --findings and --body are for tables, not for {chosen}", MISUSED)
    if chosen == "html" and leg == "both":
        raise Failure("export: a report counts what passed on one leg: choose --leg client or upstream", MISUSED)
    from amqproxy.capture.selection.conversation import Conversation
    from amqproxy.capture.selection.selection import Selection
    from amqproxy.cli.views import time_window

    given = {"--filter": filter, "--follow": follow, "--start": start, "--end": end}
    options = ExportOptions(
        messages=messages,
        findings=findings,
        fields=fields,
        filter=filter,
        body=checked_body(body),
        leg=leg,
        selected=" ".join(f"{option} {shlex.quote(value)}" for option, value in given.items() if value is not None),
    )
    conversation = None if follow is None else Conversation(follow)
    with CaptureFiles("export", files, leg=leg) as captures:
        selection = Selection(conversation, time_window(start, end))
        pieces = _EXPORTS[chosen](options, selection, captures.names, to)
        _write(pieces(captures.decoded()), to, captures, conversation, force=force)


def _add_formats(chosen: str) -> None:
    """Add the formats of addons; raise `Failure` if `chosen` is none of them."""
    from amqproxy import addons
    from amqproxy.rules.suggestions import did_you_mean

    for name, write in addons.loaded(addons.EXPORTS, check_export).items():
        _EXPORTS[name] = partial(_added, name, write)
    if chosen not in _EXPORTS:
        meant = did_you_mean(chosen, _EXPORTS) or f": it is one of {', '.join(_EXPORTS)}"
        raise Failure(f"export: --format {chosen} is not a format{meant}", MISUSED)


def check_export(name: str, write: object) -> None:
    """Raise `ValueError` unless an addon can be a format."""
    if not callable(write):
        raise ValueError("it is not a function of an iterable of objects")
    if name in get_args(Format):
        raise ValueError("amqproxy has a format of that name")


def _by_suffix(to: Path) -> Format:
    if str(to) == STANDARD_OUTPUT:
        return "jsonl"
    found = SUFFIXES.get(to.suffix.lower())
    if found is None:
        known = ", ".join(_EXPORTS)
        raise Failure(f"export: {to} has no suffix that names a format: use --format, one of {known}", MISUSED)
    return found


def _write(
    pieces: Iterator[bytes], to: Path, captures: CaptureFiles, conversation: Conversation | None, *, force: bool
) -> None:
    """Write all pieces, or nothing."""
    from amqproxy.export.output_file import FileExists, OutputFile

    if str(to) == STANDARD_OUTPUT:
        sys.stdout.flush()
        for piece in pieces:
            captures.make_way()
            sys.stdout.buffer.write(piece)
        _check_found(conversation)
        return
    try:
        with OutputFile(to, replaces=force) as file:
            size = _copy(pieces, file)
            _check_found(conversation)
    except FileExists as error:
        raise Failure(f"export: {error}{'' if to.is_dir() else ': --force replaces it'}") from None
    except OSError as error:
        raise Failure(f"export: {to} cannot be written: {error.strerror or error}") from None
    print(f"{to}: {size:,} bytes", file=sys.stderr)


def _copy(pieces: Iterator[bytes], file: BinaryIO) -> int:
    size = 0
    for piece in pieces:
        size += file.write(piece)
    return size


def _check_found(conversation: Conversation | None) -> None:
    """Raise `Failure` if there was nothing to follow, so that nothing is written."""
    if conversation is not None and (reason := conversation.why_nothing()):
        raise Failure(f"export: --follow: {reason}")


# --- the formats


def _lines(options: ExportOptions, selection: Selection, names: list[str], to: Path) -> Pieces:
    return _view(options, selection, None)


def _csv(options: ExportOptions, selection: Selection, names: list[str], to: Path) -> Pieces:
    from amqproxy.export.columns import columns

    every = columns(messages=options.messages, findings=options.findings)
    fields = options.fields or ",".join(each for each in every if each != "body" or options.body)
    return _view(options, selection, fields)


def _view(options: ExportOptions, selection: Selection, fields: str | None) -> Pieces:
    """Return the view that `decode` prints with the same options."""
    from amqproxy.cli.views import ViewOptions, view_of

    settings = ViewOptions(
        messages=options.messages,
        findings=options.findings,
        json=fields is None,
        filter=options.filter,
        body=options.body,
        fields=fields,
        header=fields is not None,
        has_both_legs=options.leg == "both",
        separator="tab" if fields is None else ",",
        is_for_spreadsheets=True,
    )
    view = view_of(settings, selection, WorstFinding())

    def pieces(decoded: Iterable[Decoded]) -> Iterator[bytes]:
        for line in view.lines(decoded):
            yield f"{line}\n".encode()
        for line in view.finish():
            yield f"{line}\n".encode()

    return pieces


def _html(options: ExportOptions, selection: Selection, names: list[str], to: Path) -> Pieces:
    from amqproxy.export.html_report import html_report
    from amqproxy.views.statistics_collector import Collector

    found = Collector(selection, wanted(options.filter), has_findings=True)

    def pieces(decoded: Iterable[Decoded]) -> Iterator[bytes]:
        found.feed(decoded)
        for piece in html_report(found, names, options.selected):
            yield piece.encode()

    return pieces


def _parquet(options: ExportOptions, selection: Selection, names: list[str], to: Path) -> Pieces:
    from amqproxy.capture.filtering import filtered
    from amqproxy.capture.observed import observed
    from amqproxy.rules.engine.command_filter import CommandFilter
    from amqproxy.rules.message_filter import message_filters_of
    from amqproxy.taps.observer import ObserverSettings

    try:
        from amqproxy.export import parquet
    except ImportError as error:
        raise Failure(f"export: {error}", MISUSED) from None

    selected = wanted(options.filter)
    settings = ObserverSettings(messages=options.messages, findings=options.findings, body=options.body)
    if selected is not None:
        settings = msgspec.structs.replace(settings, kept_body=CommandFilter.kept_body(selected))

    def of_frames(decoded: Iterable[Decoded]) -> Iterator[bytes]:
        chosen: Iterable[Decoded] = selection.connections(decoded)
        if selected is not None:
            chosen = filtered(chosen, selected)
        return parquet.frames(selection.narrowed(chosen), body=options.body)

    def of_reports(decoded: Iterable[Decoded]) -> Iterator[bytes]:
        found = observed(
            selection.connections(decoded), settings, None if selected is None else message_filters_of(selected)
        )
        shown = (each for each in found if selection.shows(each.ts_ns, each.channel))
        return parquet.reports(shown, messages=options.messages, findings=options.findings, body=options.body > 0)

    return of_reports if options.messages or options.findings else of_frames


def _pcapng(options: ExportOptions, selection: Selection, names: list[str], to: Path) -> Pieces:
    from amqproxy.export.packets import ExportedPackets
    from amqproxy.export.whole_commands import whole_commands

    selected = wanted(options.filter)
    packets = ExportedPackets()

    def pieces(decoded: Iterable[Decoded]) -> Iterator[bytes]:
        yield packets.begin(f"exported from {', '.join(names)} {options.selected}".rstrip())
        seen = packets.see(selection.connections(decoded))
        yield from packets.write(whole_commands(seen, selection.shows, selected))

    return pieces


def _asyncapi(options: ExportOptions, selection: Selection, names: list[str], to: Path) -> Pieces:
    from amqproxy.export.asyncapi import asyncapi
    from amqproxy.export.observed_channels import ObservedChannels
    from amqproxy.rules.message_filter import message_filters_of

    selected = wanted(options.filter)
    observed = ObservedChannels(None if selected is None else message_filters_of(selected), selection.shows)

    def pieces(decoded: Iterable[Decoded]) -> Iterator[bytes]:
        import yaml

        for each in selection.connections(decoded):
            observed.feed(each)
        document = asyncapi(observed, names)
        if to.suffix.lower() == ".json":
            yield msgspec.json.format(msgspec.json.encode(document)) + b"\n"
        else:
            yield yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120).encode()

    return pieces


def _added(
    name: str,
    write: Callable[[Iterator[dict[str, Any]]], Iterable[bytes | str]],
    options: ExportOptions,
    selection: Selection,
    names: list[str],
    to: Path,
) -> Pieces:
    """Return the format of an addon, which is given the objects that `decode --json` prints with the same options."""
    from amqproxy.capture.warnings import CaptureError

    lines = _view(options, selection, None)

    def pieces(decoded: Iterable[Decoded]) -> Iterator[bytes]:
        try:
            for piece in write(msgspec.json.decode(line) for line in lines(decoded)):
                yield piece.encode() if isinstance(piece, str) else bytes(piece)
        except (CaptureError, Failure, OSError):
            raise
        except Exception as error:
            raise Failure(f"export: the addon {name} has failed: {type(error).__name__}: {error}") from error

    return pieces


_EXPORTS: dict[str, Callable[[ExportOptions, Selection, list[str], Path], Pieces]] = {
    "jsonl": _lines,
    "csv": _csv,
    "parquet": _parquet,
    "pcapng": _pcapng,
    "html": _html,
    "asyncapi": _asyncapi,
}
