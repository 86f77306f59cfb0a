"""The child process that decodes bodies, so that a body that harms a decoder harms this process alone.

Tasks arrive on standard input and outcomes leave on standard output, both as MessagePack after a length of four
bytes; the first outcome is empty and reports that the process is ready. The process exits when standard input ends.
"""

from __future__ import annotations

import resource
import sys
from typing import BinaryIO

import msgspec

from amqproxy import addons
from amqproxy.bodies.body_views import BodyView, Form, NotInForm, addon_view, body_view

MAX_MEMORY = 1 << 30
"""Limit on the address space in bytes (`RLIMIT_AS`): a decoder that needs more fails."""

LENGTH = 4
"""Bytes of the length before each task and each outcome."""

MAX_REASON = 4096
"""Maximum length of the reason why a body has no view, in characters."""


class BodyTask(msgspec.Struct, frozen=True, kw_only=True):
    """A body to decode, and the arguments of `body_view`; with `is_for_addons`, only their decoders are asked."""

    body: bytes
    form: Form
    content_type: str = ""
    content_encoding: str = ""
    schema: str = ""
    message: str = ""
    is_for_addons: bool = False


class BodyOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The view of a body, or the reason why there is none, and the addons that have failed for the first time."""

    view: BodyView | None = None
    reason: str = ""
    failed_addons: list[tuple[str, str]] = []


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    serve(sys.stdin.buffer, sys.stdout.buffer)


def serve(tasks: BinaryIO, outcomes: BinaryIO) -> None:
    """Process tasks in turn until the input ends."""
    decode = msgspec.msgpack.Decoder(BodyTask).decode
    _write(outcomes, b"")
    while len(head := tasks.read(LENGTH)) == LENGTH:
        _write(outcomes, msgspec.msgpack.encode(outcome_of(decode(tasks.read(int.from_bytes(head))))))


def _write(outcomes: BinaryIO, outcome: bytes) -> None:
    outcomes.write(len(outcome).to_bytes(LENGTH) + outcome)
    outcomes.flush()


def outcome_of(task: BodyTask) -> BodyOutcome:
    """Decode the body of one task."""
    failed: list[tuple[str, str]] = []
    addons.listen(lambda addon, reason: failed.append((str(addon), reason)))
    types = {"content_type": task.content_type, "content_encoding": task.content_encoding}
    try:
        if task.is_for_addons:
            return BodyOutcome(view=addon_view(task.body, **types), failed_addons=failed)
        view = body_view(
            task.body,
            task.form,
            schema=task.schema,
            message=task.message,
            **types,
        )
    except NotInForm as error:
        return BodyOutcome(reason=str(error)[:MAX_REASON])
    except MemoryError:
        return BodyOutcome(reason="it becomes too large")
    return BodyOutcome(view=view, failed_addons=failed)


if __name__ == "__main__":
    main()
