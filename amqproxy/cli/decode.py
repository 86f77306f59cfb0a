"""`amqproxy decode`: captures, frame by frame."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from amqproxy.cli.failure import MISUSED, Failure
from amqproxy.cli.printing import checked_body, message_renderer, renderer, wanted
from amqproxy.cli.progress import Progress

if TYPE_CHECKING:
    from amqproxy.capture.decoded import Decoded
    from amqproxy.rules.matching.filters import Filter

_Lines = Callable[[Iterable["Decoded"]], Iterator[str]]


def decode(
    *files: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    messages: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
    filter: str | None = None,
    body: int = 0,
) -> None:
    """Decode the AMQP in captures: pcap or pcapng, plain or gzip; - is standard input.

    One line a frame; with --messages one line a message or request, with what became of it and how long it took.

    Parameters
    ----------
    files
        The captures, in order.
    messages
        One line for each message and request instead of each frame. See docs/messages.md.
    json
        One JSON object a line for each frame, or with --messages for each message, instead of text.
    filter
        A CEL expression, as rules have them: only the commands for which it holds. See docs/rules.md.
    body
        So many bytes of each body frame, or with --messages of each body, too; 1024 where --body stands alone.
    """
    from amqproxy.capture.decode import read_decoded
    from amqproxy.capture.warnings import CaptureError, CaptureWarning, WarningKind

    if not files:
        raise Failure("decode: name a capture, or - for standard input", MISUSED)
    unknown = [file for file in files if str(file).startswith("-") and str(file) != "-"]
    if unknown:
        raise Failure(f"decode: unknown option {unknown[0]}; for a file of that name, write ./{unknown[0]}", MISUSED)
    lines = _lines_of_messages if messages else _lines_of_frames
    rendered = lines(wanted(filter), checked_body(body), json=json)
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


def _lines_of_frames(selected: Filter | None, body: int, *, json: bool) -> _Lines:
    from amqproxy.capture.decoded import records_of
    from amqproxy.capture.filtering import filtered

    render, records = renderer(json), partial(records_of, body=body)

    def lines(decoded: Iterable[Decoded]) -> Iterator[str]:
        chosen = filtered(decoded, selected) if selected else decoded
        return map(render, chain.from_iterable(map(records, chosen)))

    return lines


def _lines_of_messages(selected: Filter | None, body: int, *, json: bool) -> _Lines:
    from amqproxy.capture.messages import messages_of
    from amqproxy.rules.context import Client
    from amqproxy.rules.engine.command_filter import CommandFilter

    render = message_renderer(json)

    def selector_of(stream: int, connection: str) -> CommandFilter:
        assert selected is not None
        return CommandFilter(selected, Client.named(stream, connection))

    def lines(decoded: Iterable[Decoded]) -> Iterator[str]:
        kept = 0 if selected is None else CommandFilter.kept_body(selected)
        return map(
            render, messages_of(decoded, body=body, kept_body=kept, selector_of=selector_of if selected else None)
        )

    return lines
