"""`amqproxy decode`: captures, frame by frame."""

from __future__ import annotations

import sys
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from amqproxy.cli.failure import MISUSED, Failure
from amqproxy.cli.printing import checked_body, renderer, wanted
from amqproxy.cli.progress import Progress


def decode(
    *files: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    json: Annotated[bool, Parameter(negative="")] = False,
    filter: str | None = None,
    body: int = 0,
) -> None:
    """Decode the AMQP in captures: pcap or pcapng, plain or gzip; - is standard input.

    Parameters
    ----------
    files
        The captures, in order.
    json
        One JSON object a line for each frame, instead of text.
    filter
        A CEL expression, as rules have them: only the frames of commands for which it holds. See docs/rules.md.
    body
        So many bytes of each body frame, too; 1024 where --body stands alone.
    """
    from amqproxy.capture.decode import read_decoded
    from amqproxy.capture.decoded import records_of
    from amqproxy.capture.filtering import filtered
    from amqproxy.capture.warnings import CaptureError, CaptureWarning, WarningKind

    if not files:
        raise Failure("decode: name a capture, or - for standard input", MISUSED)
    unknown = [file for file in files if str(file).startswith("-") and str(file) != "-"]
    if unknown:
        raise Failure(f"decode: unknown option {unknown[0]}; for a file of that name, write ./{unknown[0]}", MISUSED)
    render = renderer(json)
    selected = wanted(filter)
    records = partial(records_of, body=checked_body(body))
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
                passed = read_decoded(source, notify)
                for record in chain.from_iterable(map(records, filtered(passed, selected) if selected else passed)):
                    line = render(record) + "\n"
                    if progress.is_in_the_way:
                        progress.clear()
                    write(line)
                    count += 1
        except CaptureError as error:
            sys.stdout.flush()
            raise Failure(str(error)) from None
