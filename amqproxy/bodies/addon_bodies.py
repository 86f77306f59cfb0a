"""Bodies by the decoders of addons, for `--messages`, exports and the reports of tests.

A decoder is code of others, and a body may be of a hostile client: they meet in a child process, `body_child`, with
limited time and memory. Without an addon that decodes bodies there is no such process, and nothing costs anything.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any

import msgspec

from amqproxy import addons
from amqproxy.bodies.body_child import LENGTH, BodyOutcome, BodyTask
from amqproxy.bodies.body_views import BodyView, Form
from amqproxy.taps.message_record import MessageRecord, whole_body

SECONDS = 3.0
"""Time limit for decoding one body, in seconds."""

START_SECONDS = 30.0
"""Time limit for the child process to start, in seconds."""

MAX_BODY = 4 * 1024 * 1024
"""Size of the largest body that decoders are given, in bytes."""

MAX_LOST = 3
"""Number of child processes that may hang or end, after which no decoder is asked any more."""

_decode = msgspec.msgpack.Decoder(BodyOutcome).decode


class AddonBodies:
    """Asks the decoders of addons, in one child process; another one takes its place if it hangs or ends."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._end: weakref.finalize[..., Any] | None = None
        self._lost = 0

    def decoded(self, body: bytes, *, content_type: str = "", content_encoding: str = "") -> dict[str, Any] | None:
        """Return the `form` and the `value` of a complete body; `None` if no decoder reads it."""
        if not body or len(body) > MAX_BODY or self._lost >= MAX_LOST:
            return None
        task = BodyTask(
            body=body, form="auto", content_type=content_type, content_encoding=content_encoding, is_for_addons=True
        )
        with self._lock:
            outcome = self._outcome(msgspec.msgpack.encode(task))
        for text, reason in outcome.failed_addons:
            for addon in addons.installed():
                if str(addon) == text:
                    addons.fail(addon.group, addon.name, ValueError(reason))
        if outcome.view is None:
            return None
        return {"form": outcome.view.form, "value": msgspec.json.decode(outcome.view.text)}

    def view(
        self, body: bytes, form: Form = "auto", *, content_type: str = "", content_encoding: str = ""
    ) -> BodyView | None:
        """Return a body in a form, by amqproxy's own decoders too; `None` if it cannot be shown so."""
        if len(body) > MAX_BODY or self._lost >= MAX_LOST:
            return None
        task = BodyTask(body=body, form=form, content_type=content_type, content_encoding=content_encoding)
        with self._lock:
            return self._outcome(msgspec.msgpack.encode(task)).view

    def close(self) -> None:
        """End the child process; the next body starts another one."""
        if self._end is not None:
            self._end()
        self._process = None

    def _outcome(self, task: bytes) -> BodyOutcome:
        try:
            return _decode(self._answer(task))
        except (OSError, EOFError, ValueError):  # it was killed for taking too long, or has ended by itself
            self.close()
            self._lost += 1
            if self._lost == MAX_LOST:
                _give_up()
            return BodyOutcome()

    def _answer(self, task: bytes) -> bytes:
        """Send a task and return its outcome; at the time limit the process is killed, which ends both."""
        if self._process is None or self._owner != os.getpid():  # a fork has no share in its parent's process
            self._start()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        with _Limit(process, self._seconds):
            process.stdin.write(len(task).to_bytes(LENGTH) + task)
            process.stdin.flush()
            return _read(process)

    def _start(self) -> None:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "amqproxy.bodies.body_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # a decoder's messages are text of a hostile client
            start_new_session=True,  # Ctrl-C is for us
        )
        self._process, self._owner = process, os.getpid()
        self._end = weakref.finalize(self, _end, process, os.getpid())
        with _Limit(process, START_SECONDS):
            _read(process)


class _Limit:
    """Kills a process unless the block ends in time."""

    def __init__(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        self._timer = threading.Timer(seconds, _kill, (process,))
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *raised: object) -> None:
        self._timer.cancel()


def _read(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    head = process.stdout.read(LENGTH)
    size = int.from_bytes(head)
    data = process.stdout.read(size)
    if len(head) < LENGTH or len(data) < size:
        raise EOFError("the child process has ended")
    return data


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    if owner != os.getpid():
        return
    _kill(process)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):  # what was not written yet
            if pipe is not None:
                pipe.close()


def _give_up() -> None:
    reason = f"its process ended, or took over {SECONDS:g} s, {MAX_LOST} times: bodies are shown as they are"
    for addon in addons.installed():
        if addon.group == addons.BODIES:
            addons.fail(addon.group, addon.name, ValueError(reason))


@cache
def addon_bodies() -> AddonBodies | None:
    """Return the decoders of this process; `None` if no addon has any."""
    return AddonBodies() if addons.has(addons.BODIES) else None


def decoded_body(body: bytes | None, properties: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a body's `form` and `value` by an addon, given its properties as in JSON.

    `None` if no addon reads it, or without a body, as where only its beginning is known.
    """
    decoders = addon_bodies()
    if decoders is None or not body:
        return None
    given = properties or {}
    return decoders.decoded(
        body,
        content_type=str(given.get("content_type") or ""),
        content_encoding=str(given.get("content_encoding") or ""),
    )


def with_decoded_body(record: MessageRecord) -> MessageRecord:
    """Return the record with what an addon reads in its body, in `decoded`."""
    if record.body is None or record.decoded is not None or addon_bodies() is None:
        return record
    found = decoded_body(whole_body(record.body, record.size), record.properties)
    return record if found is None else msgspec.structs.replace(record, decoded=found)
