"""`amqproxy decode`: captures, frame by frame."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from cyclopts import Parameter

from amqproxy.cli.failure import MISUSED, Failure
from amqproxy.cli.printing import checked_body, renderer, report_renderer, wanted
from amqproxy.cli.progress import Progress

if TYPE_CHECKING:
    from amqproxy.capture.decoded import Decoded
    from amqproxy.rules.matching.filters import Filter
    from amqproxy.taps.observer import ObserverSettings, Report

_Lines = Callable[[Iterable["Decoded"]], Iterator[str]]


def decode(
    *files: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    messages: Annotated[bool, Parameter(negative="")] = False,
    findings: Annotated[bool, Parameter(negative="")] = False,
    fail_on: Literal["info", "warning", "error"] | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
    filter: str | None = None,
    body: int = 0,
) -> None:
    """Decode the AMQP in captures: pcap or pcapng, plain or gzip; - is standard input.

    One line a frame; with --messages one line a message or request, with what became of it and how long it took; with
    --findings what an expert would point out.

    Parameters
    ----------
    files
        The captures, in order.
    messages
        One line for each message and request instead of each frame. See docs/messages.md.
    findings
        What an expert would point out, instead of frames, or with --messages between them. See docs/findings.md.
    fail_on
        With --findings: exit with 1 when there is one of this severity, or of a worse one.
    json
        One JSON object a line for each frame, message or finding, instead of text.
    filter
        Print only the commands for which this CEL expression holds. See docs/rules.md.
    body
        Also print the first N bytes of each body frame, or with --messages of each body; 1024 for --body alone.
    """
    from amqproxy.capture.decode import read_decoded
    from amqproxy.capture.warnings import CaptureError, CaptureWarning, WarningKind
    from amqproxy.cli.printing import WorstFinding
    from amqproxy.taps.observer import ObserverSettings

    if not files:
        raise Failure("decode: name a capture, or - for standard input", MISUSED)
    unknown = [file for file in files if str(file).startswith("-") and str(file) != "-"]
    if unknown:
        raise Failure(f"decode: unknown option {unknown[0]}; for a file of that name, write ./{unknown[0]}", MISUSED)
    if fail_on is not None and not findings:
        raise Failure("decode: --fail-on goes by findings: it needs --findings", MISUSED)
    if findings and filter is not None and not messages:
        raise Failure("decode: --filter selects frames or messages: with --findings it needs --messages", MISUSED)
    worst = WorstFinding()
    if messages or findings:
        settings = ObserverSettings(messages=messages, findings=findings, body=checked_body(body))
        rendered = _lines_of_reports(wanted(filter), settings, worst.note, json=json)
    else:
        rendered = _lines_of_frames(wanted(filter), checked_body(body), json=json)
    write = sys.stdout.write
    count = 0

    def notify(notice: CaptureWarning) -> None:
        if notice.kind is WarningKind.CUT_SHORT and not notice.offset:
            raise Failure(str(notice))  # not even the file's own header is whole
        if notice.kind is not WarningKind.IGNORED or not count:
            progress.clear()
            print(f"amqproxy: {notice}", file=sys.stderr)

    for file in files:
        count = 0
        progress = Progress(file)
        try:
            with progress.reading() as source:
                for line in rendered(read_decoded(source, notify)):
                    if progress.is_in_the_way:
                        progress.clear()
                    write(line + "\n")
                    count += 1
        except CaptureError as error:
            sys.stdout.flush()
            raise Failure(str(error)) from None
    if fail_on is not None and worst.is_at_least(fail_on):
        sys.stdout.flush()
        raise Failure(f"decode: there are findings of severity {worst.severity}")


def _lines_of_frames(selected: Filter | None, body: int, *, json: bool) -> _Lines:
    from amqproxy.capture.decoded import records_of
    from amqproxy.capture.filtering import filtered

    render, records = renderer(json), partial(records_of, body=body)

    def lines(decoded: Iterable[Decoded]) -> Iterator[str]:
        chosen = filtered(decoded, selected) if selected else decoded
        return map(render, chain.from_iterable(map(records, chosen)))

    return lines


def _lines_of_reports(
    selected: Filter | None, settings: ObserverSettings, note: Callable[[Report], None], *, json: bool
) -> _Lines:
    from amqproxy.capture.observed import observed
    from amqproxy.rules.engine.command_filter import CommandFilter, filters_of

    render = report_renderer(json)
    selector_of = None if selected is None else filters_of(selected)
    if selected is not None:
        settings = msgspec.structs.replace(settings, kept_body=CommandFilter.kept_body(selected))

    def lines(decoded: Iterable[Decoded]) -> Iterator[str]:
        for report in observed(decoded, settings, selector_of):
            note(report)
            yield render(report)

    return lines
