"""`amqproxy queue edit`."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from amqproxy.cli.failure import MISUSED, Failure
from amqproxy.cli.queue_options import Chosen, Noted, Reached
from amqproxy.cli.queue_runs import move_messages

if TYPE_CHECKING:
    from amqproxy.amqp091.properties import Properties
    from amqproxy.workbench.audit import Audit
    from amqproxy.workbench.edit import Edit
    from amqproxy.workbench.held_message import HeldMessage
    from amqproxy.workbench.move import Change

NUMBERS = ("delivery_mode", "priority", "timestamp")
"""Properties that are numbers."""


def edit_messages(
    broker: str,
    queue: str,
    reached: Reached,
    chosen: Chosen,
    noted: Noted,
    *,
    assignments: list[str],
    headers: list[str],
    removed: list[str],
    body: str | None,
    body_file: Path | None,
    has_editor: bool,
    is_requeued: bool,
) -> None:
    """Run `queue edit`."""
    from amqproxy.workbench.destination import ToOrigin, ToQueue
    from amqproxy.workbench.edit import Edit
    from amqproxy.workbench.edited_changes import EditedChanges
    from amqproxy.workbench.message_line import LineError

    if body is not None and body_file is not None:
        raise Failure("queue edit: give --body or --body-file", MISUSED)
    try:
        content = body_file.read_bytes() if body_file else None if body is None else body.encode()
    except OSError as error:
        raise Failure(f"queue edit: --body-file {body_file}: {error.strerror}", MISUSED) from None
    edit = Edit(
        properties=dict(_property(each) for each in assignments),
        headers=dict(_header(each) for each in headers),
        without=tuple(removed),
        body=content,
    )
    if edit == Edit() and not has_editor:
        raise Failure("queue edit: say what to change: --set, --header, --remove, --body or --editor", MISUSED)
    try:
        edit.check()
    except LineError as error:
        raise Failure(f"queue edit: {error}", MISUSED) from None
    changes = EditedChanges(_by_editor(queue, edit) if has_editor else edit.of)

    def note(audit: Audit | None, message: HeldMessage) -> None:
        changes.note(audit, message)

    place = ToOrigin() if is_requeued else ToQueue(queue)
    move_messages("edit", broker, queue, place, reached, chosen, noted, change=changes.change, note=note)


def _property(text: str) -> tuple[str, Any]:
    name, is_assigned, value = text.partition("=")
    if not is_assigned:
        raise Failure(f"queue edit: --set {text}: give NAME=VALUE", MISUSED)
    if name in NUMBERS and value:
        if not value.isdigit():
            raise Failure(f"queue edit: --set {text}: {name} is a number", MISUSED)
        return name, int(value)
    return name, value or None


def _header(text: str) -> tuple[str, Any]:
    name, is_assigned, value = text.partition("=")
    if not is_assigned or not name:
        raise Failure(f"queue edit: --header {text}: give NAME=VALUE", MISUSED)
    try:
        return name, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return name, value


def _by_editor(queue: str, edit: Edit) -> Change:
    """Return the change that a person makes to each message, after `edit`."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise Failure("queue edit: --editor needs a program in VISUAL or EDITOR", MISUSED)
    words = shlex.split(editor)

    async def change(message: HeldMessage) -> tuple[Properties, bytes]:
        import trio

        from amqproxy.workbench.destination import NoPlace
        from amqproxy.workbench.held_message import HeldMessage
        from amqproxy.workbench.message_line import LineError, line_of, read_line

        properties, body = await edit.of(message)
        method = message.command.method
        line = line_of(HeldMessage(message.command.altered(method, properties, body), message.position), queue)
        line.header = None  # the properties are for people; the header would contradict them
        before = msgspec.json.format(line.to_json(), indent=2) + b"\n"
        # The connection's heartbeats go on meanwhile.
        path, after, code = await trio.to_thread.run_sync(partial(_edited, words, before))
        if code:
            raise NoPlace(f"the editor ended with exit code {code}; its text is in {path}")
        if after == before:
            path.unlink()
            if edit == type(edit)():
                raise NoPlace("it was not changed in the editor")
            return properties, body
        try:
            found = read_line(after, message.position, properties)
        except LineError as error:
            raise NoPlace(f"{error}; the text is in {path}") from None
        path.unlink()
        return found.command.properties, found.body

    return change


def _edited(editor: list[str], text: bytes) -> tuple[Path, bytes, int]:
    """Return the file that a person has edited, its text, and the editor's exit code."""
    with tempfile.NamedTemporaryFile(prefix="amqproxy-message-", suffix=".json", delete=False) as file:
        file.write(text)
    path = Path(file.name)
    try:
        code = subprocess.call([*editor, str(path)])
    except OSError:
        code = 127
    return path, path.read_bytes(), code
