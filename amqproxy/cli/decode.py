"""`amqproxy decode`: prints captures frame by frame, or as another view."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Group, Parameter

from amqproxy.cli.capture_files import check_files
from amqproxy.cli.failure import MISUSED, Failure
from amqproxy.cli.options import Body, Capture, Filter, Findings, FrameJson, Header, Messages
from amqproxy.cli.printing import WorstFinding, checked_body
from amqproxy.cli.progress import Progress
from amqproxy.cli.second_engine import second_engine

if TYPE_CHECKING:
    from amqproxy.capture.byte_window import OnRead
    from amqproxy.capture.decoded import Decoded
    from amqproxy.capture.share import Share
    from amqproxy.capture.warnings import OnWarning
    from amqproxy.views.view import View


MAX_JOBS = 64

_SVG = b"<svg "
"""First bytes of a picture."""

_VIEWS, _SELECTION, _FORM, _READING = (
    Group(name, sort_key=place)
    for place, name in enumerate(("What is shown", "Which part of it", "In which form", "Reading"))
)


def decode(
    *files: Capture,
    messages: Annotated[Messages, Parameter(group=_VIEWS)] = False,
    findings: Annotated[Findings, Parameter(group=_VIEWS)] = False,
    life: Annotated[str | None, Parameter(group=_VIEWS)] = None,
    fail_on: Annotated[Literal["info", "warning", "error"] | None, Parameter(group=_VIEWS)] = None,
    sequence: Annotated[bool, Parameter(negative="", group=_VIEWS)] = False,
    svg: Annotated[Path | None, Parameter(allow_leading_hyphen=True, group=_VIEWS)] = None,
    limit: Annotated[int | None, Parameter(group=_VIEWS)] = None,
    stats: Annotated[bool, Parameter(negative="", group=_VIEWS)] = False,
    top: Annotated[int | None, Parameter(group=_VIEWS)] = None,
    filter: Annotated[Filter, Parameter(group=_SELECTION)] = None,
    follow: Annotated[str | None, Parameter(group=_SELECTION)] = None,
    start: Annotated[str | None, Parameter(group=_SELECTION)] = None,
    end: Annotated[str | None, Parameter(group=_SELECTION)] = None,
    leg: Annotated[Literal["client", "upstream", "both"], Parameter(group=_SELECTION)] = "client",
    json: Annotated[FrameJson, Parameter(group=_FORM)] = False,
    fields: Annotated[str | None, Parameter(group=_FORM)] = None,
    header: Annotated[Header, Parameter(group=_FORM)] = False,
    separator: Annotated[str, Parameter(group=_FORM)] = "tab",
    body: Annotated[Body, Parameter(group=_FORM)] = 0,
    keylog: Annotated[Path | None, Parameter(group=_READING)] = None,
    jobs: Annotated[int, Parameter(group=_READING)] = 1,
) -> None:
    """Decode the AMQP in captures: pcap or pcapng, plain, gzip, zstd or lz4; - is standard input.

    Prints one line per frame; with --messages one line per message or request, with its outcome and duration; with
    --findings likely mistakes and problems.

    Parameters
    ----------
    files
        The captures, in order: files, or directories of them. TCP connections continue from one to the next.
    life
        Print the life of the message with this message_id, or of all messages: its publish, and its deliveries on
        all connections, with their outcomes.
    fail_on
        With --findings: exit with 1 if there is one of at least this severity.
    fields
        Print only these fields, separated by tabs: comma-separated keys of the JSON objects, such as
        time,from,method,arguments.exchange,properties.headers.x. With --json: print objects with only these keys.
    separator
        With --fields: separate them by this character instead of a tab; values are quoted as in CSV.
    follow
        Print only one connection, or with /CHANNEL one channel of it: by number, client port, or a part of
        its addresses or of its connection name.
    sequence
        Print a sequence diagram with folded repetitions instead of lines. With --leg both, of a recording:
        client, proxy and broker.
    svg
        Draw the diagram of --sequence as a picture into this file; - is standard output. An existing picture is
        replaced, any other file is not.
    limit
        With --sequence or --svg: maximum number of rows [500]; further rows are counted.
    stats
        Print rates, latencies, sizes, top talkers, errors and findings of all captures together, instead of lines.
        With --json: one object.
    top
        With --stats: number of connections, users, exchanges, routing keys and queues to list [10].
    start
        Print only frames from this time on: 2026-01-31T10:59:05.5 (UTC, or with +01:00), 10:59:05.5 of the
        first day, seconds since 1970, or +2.5 for seconds after the first frame.
    end
        Print only frames before this time.
    leg
        The leg of a proxy recording to print: between the proxy and its clients, or its upstream, or both.
    keylog
        A file with secrets of TLS sessions, in SSLKEYLOGFILE format, to decrypt them. Secrets that are in
        the capture itself are used without it. Needs tshark, and pip install 'amqproxy[captures]'.
    jobs
        Decode with N processes, which take turns by packets; with --messages or --filter each decodes some of the
        connections. The output does not change. Only for frames and
        --messages; content that only tshark can read is left out.
    """
    check_files("decode", files)
    if fail_on is not None and not findings:
        raise Failure("decode: --fail-on needs --findings", MISUSED)
    if findings and filter is not None and not messages:
        raise Failure("decode: --filter selects frames or messages: with --findings it needs --messages", MISUSED)
    if fields is None and (header or separator != "tab"):
        raise Failure("decode: --header and --separator are for columns: they need --fields", MISUSED)
    if jobs != 1:
        given = any(each is not None for each in (life, svg, follow, start, end, keylog))
        if given or findings or sequence or stats or leg == "both":
            raise Failure(
                "decode: --jobs is for frames and --messages, without --follow, --start, --end, --leg both, --keylog",
                MISUSED,
            )
        if not 1 <= jobs <= MAX_JOBS:
            raise Failure(f"decode: --jobs {jobs}: 1 to {MAX_JOBS} processes", MISUSED)
        if any(str(file) == "-" for file in files):
            raise Failure(
                "decode: --jobs reads the capture several times, and standard input can be read once", MISUSED
            )
    from amqproxy.capture.selection.conversation import Conversation
    from amqproxy.capture.selection.selection import Selection
    from amqproxy.capture.selection.session_legs import SessionLegs
    from amqproxy.cli.views import ViewOptions, time_window, view_of
    from amqproxy.views.life_view import LifeView

    options = ViewOptions(
        messages=messages,
        life=life,
        findings=findings,
        json=json,
        filter=filter,
        body=checked_body(body),
        fields=fields,
        header=header,
        separator=separator,
        has_both_legs=leg == "both",
        sequence=sequence or svg is not None,
        is_picture=svg is not None,
        limit=limit,
        stats=stats,
        top=top,
    )
    if svg is not None and str(svg) != "-":
        _check_picture(svg)
    worst = WorstFinding()
    conversation = None if follow is None else Conversation(follow)
    view = view_of(
        options, Selection(conversation, time_window(start, end), SessionLegs() if leg == "both" else None), worst
    )
    _print(files, view, svg, leg, keylog, jobs, by_packet=not messages and filter is None)
    if conversation is not None and (reason := conversation.why_nothing()):
        sys.stdout.flush()
        raise Failure(f"decode: --follow: {reason}")
    _finish(view, svg)
    if isinstance(view, LifeView) and not view.shown:
        sys.stdout.flush()
        raise Failure(f"decode: --life: no message has the message_id {life}")
    if fail_on is not None and worst.is_at_least(fail_on):
        sys.stdout.flush()
        raise Failure(f"decode: there are findings of severity {worst.severity}")


def _print(
    files: Sequence[Path], view: View, svg: Path | None, leg: str, keylog: Path | None, jobs: int, *, by_packet: bool
) -> None:
    """Print the view while the captures are read; if reading ends early, print the rest of the view."""
    from amqproxy.capture.decode import read_decoded
    from amqproxy.capture.files import name_of
    from amqproxy.capture.warnings import CaptureError, CaptureWarning, WarningKind

    write = sys.stdout.write
    count = 0
    is_begun = False

    def notify(notice: CaptureWarning) -> None:
        if notice.kind is WarningKind.CUT_SHORT and not notice.offset:
            raise Failure(str(notice))  # not even the file header is complete
        if notice.kind is not WarningKind.IGNORED or not count:
            progress.clear()
            print(f"amqproxy: {notice}", file=sys.stderr)

    def passed(decoded: Iterator[Decoded]) -> Iterator[Decoded]:
        nonlocal is_begun
        for each in decoded:
            is_begun = True
            yield each

    try:
        with ExitStack() as stack:
            progress = stack.enter_context(Progress(files))
            if jobs > 1:
                from amqproxy.cli.decode_jobs import lines_of_jobs

                read = partial(_read_share, files, leg)
                sys.stdout.flush()  # the processes must not flush the parent's buffer
                made = lines_of_jobs(view, read, jobs, name_of(files), notify, progress.advance, by_packet=by_packet)
                lines: Iterator[str] = stack.enter_context(closing(made))
            else:
                engine = stack.enter_context(second_engine("decode", notify, keylog))
                decoded = read_decoded(files, notify, progress.advance, leg=leg, engine=engine, by_session=True)
                lines = view.lines(passed(decoded))
            for line in lines:
                if progress.is_in_the_way:
                    progress.clear()
                write(line + "\n")
                count += 1
    except (CaptureError, KeyboardInterrupt) as ended:
        if is_begun:
            _finish(view, svg)  # the output until then
        sys.stdout.flush()
        if isinstance(ended, CaptureError):
            raise Failure(str(ended)) from None
        raise


def _read_share(files: Sequence[Path], leg: str, share: Share, notify: OnWarning, on_read: OnRead) -> Iterator[Decoded]:
    from amqproxy.capture.decode import read_decoded

    return read_decoded(files, notify, on_read, leg=leg, share=share, by_session=True)


def _finish(view: View, file: Path | None) -> None:
    """Print the end of the view after the last capture, or write it into a file."""
    if file is None or str(file) == "-":
        for line in view.finish():
            sys.stdout.write(line + "\n")
        return
    from amqproxy.export.output_file import FileExists, OutputFile

    try:
        with OutputFile(file, replaces=True) as output:
            for line in view.finish():
                output.write(f"{line}\n".encode())
    except FileExists as error:
        raise Failure(f"decode: --svg: {error}") from None
    except OSError as error:
        raise Failure(f"decode: --svg {file}: {error.strerror or error}") from None


def _beginning(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(len(_SVG))


def _check_picture(file: Path) -> None:
    """Raise `Failure`, before reading a capture, if the picture cannot be written or would replace another file."""
    from amqproxy.export.output_file import FileExists, OutputFile

    try:
        if file.is_file() and _beginning(file) not in (b"", _SVG):
            raise Failure(f"decode: --svg {file} exists, and is not a picture made by this command")
        OutputFile(file, replaces=True)
    except FileExists as error:
        raise Failure(f"decode: --svg: {error}") from None
    except OSError as error:
        raise Failure(f"decode: --svg {file}: {error.strerror}") from None
