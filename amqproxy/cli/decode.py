"""`amqproxy decode`: captures, frame by frame."""

from __future__ import annotations

import sys
from itertools import chain
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from amqproxy.cli.failure import MISUSED, Failure
from amqproxy.cli.printing import renderer, wanted


def decode(
    *files: Annotated[Path, Parameter(allow_leading_hyphen=True)],
    json: Annotated[bool, Parameter(negative="")] = False,
    filter: str | None = None,
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
    """
    from amqproxy.capture.choice import chosen
    from amqproxy.capture.decode import read_passed
    from amqproxy.capture.notices import CaptureError, Notice, NoticeKind
    from amqproxy.capture.passed import records_of

    if not files:
        raise Failure("decode: name a capture, or - for standard input", MISUSED)
    unknown = [file for file in files if str(file).startswith("-") and str(file) != "-"]
    if unknown:
        raise Failure(f"decode: unknown option {unknown[0]}; for a file of that name, say ./{unknown[0]}", MISUSED)
    render = renderer(json)
    selected = wanted(filter)
    write = sys.stdout.write
    count = 0

    def notify(notice: Notice) -> None:
        if notice.kind is NoticeKind.CUT_SHORT and not notice.offset:
            raise Failure(str(notice))  # not even the file's own header is whole
        if notice.kind is not NoticeKind.IGNORED or not count:
            print(f"amqproxy: {notice}", file=sys.stderr)

    for file in files:
        count = 0
        try:
            passed = read_passed(file, notify)
            for record in chain.from_iterable(map(records_of, chosen(passed, selected) if selected else passed)):
                write(render(record) + "\n")
                count += 1
        except CaptureError as error:
            sys.stdout.flush()
            raise Failure(str(error)) from None
