"""Reads bodies as a child of the dashboard: what harms a decoder, harms this process alone.

Tasks come on standard input and outcomes go to standard output, each as MessagePack behind its length, four bytes; the
first outcome is empty, once the process is ready. The end of standard input is its end.
"""

from __future__ import annotations

import resource
import sys
from typing import BinaryIO

import msgspec

from dashboard.body_views import BodyView, Form, NotInForm, body_view

MAX_MEMORY = 1 << 30
"""Bytes of addresses that the process may have: a decoder that wants more fails."""

LENGTH = 4
"""Bytes of the length before a task, and before an outcome."""

MAX_REASON = 4096
"""Characters of why there is no view."""


class BodyTask(msgspec.Struct, frozen=True, kw_only=True):
    """What to read, and how: see `body_view`."""

    body: bytes
    form: Form
    content_type: str = ""
    content_encoding: str = ""
    schema: str = ""
    message: str = ""


class BodyOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """A view, or why there is none."""

    view: BodyView | None = None
    reason: str = ""


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    serve(sys.stdin.buffer, sys.stdout.buffer)


def serve(tasks: BinaryIO, outcomes: BinaryIO) -> None:
    """Do one task after the other, until there are no more."""
    decode = msgspec.msgpack.Decoder(BodyTask).decode
    _write(outcomes, b"")
    while len(head := tasks.read(LENGTH)) == LENGTH:
        _write(outcomes, msgspec.msgpack.encode(outcome_of(decode(tasks.read(int.from_bytes(head))))))


def _write(outcomes: BinaryIO, outcome: bytes) -> None:
    outcomes.write(len(outcome).to_bytes(LENGTH) + outcome)
    outcomes.flush()


def outcome_of(task: BodyTask) -> BodyOutcome:
    """Do one task."""
    try:
        view = body_view(
            task.body,
            task.form,
            content_type=task.content_type,
            content_encoding=task.content_encoding,
            schema=task.schema,
            message=task.message,
        )
    except NotInForm as error:
        return BodyOutcome(reason=str(error)[:MAX_REASON])
    except MemoryError:
        return BodyOutcome(reason="it becomes too large")
    return BodyOutcome(view=view)


if __name__ == "__main__":
    main()
