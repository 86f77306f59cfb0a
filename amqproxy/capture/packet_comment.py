"""Packet comments of recordings: verdicts of rules, readable in Wireshark, and parsed back exactly.

    amqproxy: client leg; refused by "no-guests", "quiet"; tags "slow"

Names are quoted as in JSON, so that any name can be parsed back. Parts that are absent from the `Note` are omitted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from amqproxy.amqp091.protocol_header import NAME
from amqproxy.capture.packet_snapshot import SnapshotComment
from amqproxy.taps.note import NOTHING, Note

PREFIX = "amqproxy: "
"""Prefix of every comment of a recording; other comments were added to the file later."""

MAX_KNOWN_COMMENTS = 1024
"""Comments whose notes are cached, since many packets have the same."""

_NAME = r'"(?:[^"\\]|\\.)*"'
_NAMES = rf"{_NAME}(?:, {_NAME})*"
_WORD = rf"(?:[a-z]+|{_NAME})"
_PART = re.compile(
    rf"(?:(?P<leg>{_WORD}) leg"
    rf"|tags (?P<tags>{_NAMES})"
    rf"|by (?P<only_rules>{_NAMES})"
    rf"|(?P<verdict>{_WORD})(?: by (?P<rules>{_NAMES}))?"
    r")(?:; (?!$)|$)"
)
_EACH_NAME = re.compile(_NAME)
_PLAIN = re.compile(r"[a-z]+")
_KEYWORDS = frozenset({"by", "tags"})


@lru_cache(MAX_KNOWN_COMMENTS)
def comment_of(note: Note) -> str:
    """Return the text of a packet comment."""
    parts = []
    if note.leg:
        parts.append(f"{_word(note.leg)} leg")
    what = [_word(note.verdict)] if note.verdict else []
    if note.rules:
        what.append(f"by {_names(note.rules)}")
    if what:
        parts.append(" ".join(what))
    if note.tags:
        parts.append(f"tags {_names(note.tags)}")
    return PREFIX + "; ".join(parts)


def note_of(comments: Iterable[str]) -> Note:
    """Return the note in the comments of a packet, or NOTHING."""
    for comment in comments:
        note = _parsed(comment)
        if note is not NOTHING:
            return note
    return NOTHING


def added_comments(comments: Iterable[str]) -> tuple[str, ...]:
    """Return the comments of a packet that users added to it."""
    return tuple(each for each in comments if not each.startswith(PREFIX) and not isinstance(each, SnapshotComment))


@lru_cache(MAX_KNOWN_COMMENTS)
def _parsed(comment: str) -> Note:
    if not comment.startswith(PREFIX):
        return NOTHING
    found: dict[str, str] = {}
    position = len(PREFIX)
    while position < len(comment):
        part = _PART.match(comment, position)
        if part is None:
            return NOTHING
        found |= {name: text for name, text in part.groupdict().items() if text}
        position = part.end()
    if not found:
        return NOTHING
    try:
        return Note(
            rules=_listed(found.get("rules") or found.get("only_rules")),
            tags=_listed(found.get("tags")),
            verdict=_plain(found.get("verdict")),
            leg=_plain(found.get("leg")),
        )
    except ValueError:  # not JSON written by a recording
        return NOTHING


def _word(text: str) -> str:
    return text if _PLAIN.fullmatch(text) and text not in _KEYWORDS else _quoted(text)


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(_quoted, names))


def _quoted(name: str) -> str:
    quoted = json.dumps(name, ensure_ascii=False)
    return quoted if quoted.isprintable() else json.dumps(name)


def _plain(word: str | None) -> str:
    return json.loads(word) if word and word.startswith('"') else word or ""


def _listed(names: str | None) -> tuple[str, ...]:
    return tuple(json.loads(name) for name in _EACH_NAME.findall(names)) if names else ()


def session_comment(
    number: int, leg: str, name: str, *, session: str, is_tls: bool, shown_name: str = "", protocol: str = NAME
) -> str:
    """Return the comment of a connection's first packet in each file; `name` holds its addresses, the opener's first.

    `shown_name` is the name given by the client, "" if unknown.
    """
    of = "" if leg == "client" else f", for {session}"
    named = f" {_quoted(shown_name)}" if shown_name else ""
    how = f"{', by TLS' if is_tls else ''}{'' if protocol == NAME else f', of AMQP {protocol}'}"
    return f"{PREFIX}session {number}{named}, {leg} leg {name}{of}{how}"


def name_comment(shown_name: str) -> str:
    """Return the comment with the client's name for the connection."""
    return f"{PREFIX}connection name {_quoted(shown_name)}"


def lost_comment(frames: int, size: int) -> str:
    """Return the comment that this end's frames before the packet are missing from the recording."""
    many = f"{frames} frame{'s' * (frames != 1)}"
    return f"{PREFIX}{many} before this not recorded, {f'{size} bytes' if size else 'of unknown size'}"


def ended_comment(reason: str) -> str:
    """Return the comment with the reason for the end of the session."""
    return f"{PREFIX}ended: {_quoted(reason)}"


def violation_comment(sender: str, code: int, text: str, channel: int | None, offset: int | None) -> str:
    """Return the comment with the protocol violation that ended the session."""
    places = [
        f" on channel {channel}" if channel is not None else "",
        f" at byte {offset}" if offset is not None else "",
    ]
    return f"{PREFIX}violation by the {sender}: {code} {_quoted(text)}{''.join(places)}"


_SESSION = re.compile(rf"{PREFIX}session (\d+)(?: {_NAME})?, (?:client|upstream) leg (\S+?)(?:,.*)?")
_LOST = re.compile(rf"{PREFIX}\d+ frames? before this not recorded, .*")
_ENDED = re.compile(rf"{PREFIX}ended: ({_NAME})")


_VIOLATION = re.compile(
    rf"{PREFIX}violation by the (?:client|server): (\d+) ({_NAME})(?: on channel (\d+))?(?: at byte (\d+))?"
)


class RecordedViolation(NamedTuple):
    """The protocol violation in a packet that ended the session."""

    code: int
    reason: str
    channel: int | None
    offset: int | None


def violation_of(comments: Iterable[str]) -> RecordedViolation | None:
    """Return the violation in the comments, or None."""
    for comment in comments:
        found = _VIOLATION.fullmatch(comment)
        if found is not None:
            channel, offset = (int(each) if each else None for each in found.groups()[2:])
            return RecordedViolation(int(found[1]), str(json.loads(found[2])), channel, offset)
    return None


def opener_of(comments: Iterable[str]) -> str:
    """Return the address of the end that opened the introduced connection; "" if no comment introduces one."""
    for comment in comments:
        found = _SESSION.fullmatch(comment)
        if found is not None:
            return found[2].partition("-")[0]
    return ""


def tells_protocol(comments: Iterable[str], version: str) -> bool:
    """Whether the comments introduce a connection of this version of AMQP, and name it, as for others than 0-9-1."""
    return any(comment.endswith(f", of AMQP {version}") and _SESSION.fullmatch(comment) for comment in comments)


def session_of(comments: Iterable[str]) -> int | None:
    """Return the number of the session introduced by the comments, in the run of the proxy that recorded it."""
    for comment in comments:
        found = _SESSION.fullmatch(comment)
        if found is not None:
            return int(found[1])
    return None


def tells_loss(comments: Iterable[str]) -> bool:
    """Whether frames are missing before this packet, which then begins with a frame."""
    return any(_LOST.fullmatch(comment) for comment in comments)


def end_of(comments: Iterable[str]) -> str:
    """Return the reason for the end of the session that this packet ends, or ""."""
    for comment in comments:
        found = _ENDED.fullmatch(comment)
        if found is not None:
            return str(json.loads(found[1]))
    return ""
