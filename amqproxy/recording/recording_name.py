"""Names that users give to recordings, which take them out of the ring."""

from __future__ import annotations

import os
import re
from pathlib import Path

from amqproxy.capture.files import PARTIAL
from amqproxy.recording.recording_directory import MODE, RecordingDirectory, is_recording

MAX_NAME = 120
"""Maximum length of a given name in characters: file systems allow 255 bytes, suffixes included."""

_NAME = re.compile(r"\w[\w .,()+=@-]*")
_SUFFIXES = re.compile(r"(?:\.(?:pcapng|pcap|cap)\d*)?(?:\.(?:gz|zst|lz4))?$")


class NameRefused(ValueError):
    """The recording cannot have this name, with the reason."""


def rename(recording: Path, name: str) -> Path:
    """Give a recording a name of its own in its directory, and return its path; its suffixes stay.

    No other file is replaced. A ring counts and deletes only files with the recorder's own names, so a named recording
    is kept until a user deletes it. `NameRefused`, or `OSError`.
    """
    suffixes = _SUFFIXES.search(recording.name)
    assert suffixes is not None
    if recording.name.endswith(PARTIAL):
        raise NameRefused("it is still being written: stop the recording first, or wait for its next file")
    target = recording.with_name(_checked(name.removesuffix(suffixes[0])) + suffixes[0])
    if is_recording(target.name):
        raise NameRefused("the recorder gives such names, and would delete the file with the oldest ones")
    try:
        # The placeholder makes this atomic: a plain rename would replace a file that appears meanwhile.
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE))
    except FileExistsError:
        raise NameRefused(f"there is a {target.name} already") from None
    try:
        recording.rename(target)
    except OSError:
        target.unlink(missing_ok=True)
        raise
    RecordingDirectory(target.parent).sync()
    return target


def _checked(name: str) -> str:
    name = name.strip()
    if len(name) > MAX_NAME or len(name.encode()) > 200:
        raise NameRefused(f"the name is too long: at most {MAX_NAME} characters")
    if not _NAME.fullmatch(name) or not name.isprintable():
        raise NameRefused(
            "a name begins with a letter or digit, and has only letters, digits, spaces and . , _ - + = @ ( )"
        )
    return name
