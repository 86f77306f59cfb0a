"""The text of commands for human readers."""

from __future__ import annotations

from typing import Any

from amqproxy.conversion.client_name import given_name
from amqproxy.taps.dialects import method_arguments
from amqproxy.taps.note import Note
from amqproxy.taps.record import json_mapping
from amqproxy.taps.text import pairs, printable, value_text
from amqproxy.views.passed_command import PassedCommand, PassedKind


def command_text(command: PassedCommand) -> str:
    """Return the method with its arguments, content size and properties; or the text of another kind of event."""
    return f"{title(command)}  {details(command)}".rstrip()


def title(command: PassedCommand) -> str:
    """Return the method's name, or the name of another kind of event."""
    if command.method is not None:
        return command.method.name
    if command.kind is PassedKind.STRAY_CONTENT:
        return f"{command.text} of a message whose beginning is not shown"
    if command.kind is PassedKind.ERROR:
        return "ERROR"
    if command.kind is PassedKind.END:
        return "over"
    return str(command.kind)


def details(command: PassedCommand, *, has_properties: bool = True) -> str:
    """Return the text after the title; of client and server properties only product, version and connection name."""
    if command.method is None:
        if command.kind is PassedKind.STRAY_CONTENT:
            return f"{command.size} bytes"
        return printable(command.text)
    given = {name: value for name, value in method_arguments(command.method).items() if value not in ({}, [])}
    parts = [] if command.command_id is None else [f"#{command.command_id}"]
    parts.append(pairs(_folded(given)))
    if command.size is not None:
        parts.append(f"{command.size} bytes")
    if has_properties:
        parts.append(pairs(json_mapping(command.properties.present())))
    if command.kind is PassedKind.CUT_COMMAND:
        parts.append("(not all of it came)")
    parts.append(note_text(command.note))
    return " ".join(part for part in parts if part)


def note_text(note: Note) -> str:
    """Return the rules' effect on a command, in brackets: [client leg; refused by no-guests; tags: slow]"""
    parts = [f"{note.leg} leg"] if note.leg else []
    if note.verdict or note.rules:
        by = f"by {', '.join(value_text(rule) for rule in note.rules)}" if note.rules else ""
        parts.append(f"{note.verdict} {by}".strip())
    if note.tags:
        parts.append(f"tags: {', '.join(map(value_text, note.tags))}")
    return f"[{'; '.join(parts)}]" if parts else ""


def _folded(given: dict[str, Any]) -> dict[str, Any]:
    folded: dict[str, Any] = {}
    for name, value in given.items():
        if name not in ("client_properties", "server_properties") or not isinstance(value, dict):
            folded[name] = value
            continue
        version = [value[key] for key in ("product", "version") if isinstance(value.get(key), str)]
        if version:
            folded[name.partition("_")[0]] = " ".join(version)
        if name_of_client := given_name(value):
            folded["connection_name"] = name_of_client
    return folded
