"""Bodies by decoders of addons, and what a decoder that hangs or crashes does to others."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from amqproxy import addons
from amqproxy.bodies import addon_bodies
from amqproxy.bodies.addon_bodies import MAX_BODY, MAX_LOST, AddonBodies, decoded_body, with_decoded_body
from amqproxy.taps.message_record import MessageRecord
from tests.installed_addons import installed

pytestmark = pytest.mark.once

DECODER = """
import os, signal, time

def decode(body, content_type):
    if body == b"forever":
        while True:
            time.sleep(1)
    if body == b"crash":
        os.kill(os.getpid(), signal.SIGKILL)
    if body == b"raise":
        raise RuntimeError("oh no")
    if body.startswith(b"a="):
        return {"a": body[2:].decode(), "type": content_type, "process": os.getpid()}
"""


@pytest.fixture(autouse=True)
def addon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Install an addon for this process and its children; yield the reasons of failures."""
    installed(tmp_path, "letters", {"amqproxy.bodies": {"letter": "letter_body:decode"}})
    (tmp_path / "letter_body.py").write_text(DECODER)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setattr(addons, "_failures", {})
    failures: list[str] = []
    monkeypatch.setattr(addons, "_listener", lambda addon, reason: failures.append(f"{addon}: {reason}"))
    addons.installed.cache_clear()
    addon_bodies.addon_bodies.cache_clear()
    yield failures
    if (decoders := addon_bodies.addon_bodies()) is not None:
        decoders.close()
    addon_bodies.addon_bodies.cache_clear()
    addons.installed.cache_clear()


@pytest.fixture
def decoders() -> Iterator[AddonBodies]:
    decoders = AddonBodies(seconds=1.0)
    yield decoders
    decoders.close()


def test_one_process_decodes_all_bodies_and_leaves_those_of_other_forms(decoders: AddonBodies) -> None:
    first = decoders.decoded(b"a=1", content_type="text/letter")
    assert first is not None
    assert first["form"] == "letter"
    assert (first["value"]["a"], first["value"]["type"]) == ("1", "text/letter")
    assert first["value"]["process"] != os.getpid()
    assert decoders.decoded(b"b=1") is None
    again = decoders.decoded(b"a=2")
    assert again is not None
    assert again["value"]["process"] == first["value"]["process"]


def test_a_packed_body_is_unpacked_first(decoders: AddonBodies) -> None:
    import gzip

    found = decoders.decoded(gzip.compress(b"a=1"))
    assert found is not None
    assert found["value"]["a"] == "1"


def test_a_decoder_that_raises_is_named_once(decoders: AddonBodies, addon: list[str]) -> None:
    assert decoders.decoded(b"raise") is None
    assert decoders.decoded(b"raise") is None
    (failure,) = addon
    assert failure.startswith("body letter of letters 1.0: RuntimeError: oh no")


def test_a_body_too_large_is_not_decoded(decoders: AddonBodies) -> None:
    assert decoders.decoded(b"a=" + bytes(MAX_BODY)) is None


@pytest.mark.parametrize("body", [b"forever", b"crash"])
def test_a_process_that_hangs_or_ends_is_replaced_a_few_times(body: bytes, addon: list[str]) -> None:
    decoders = AddonBodies(seconds=0.2 if body == b"forever" else 10.0)
    try:
        for lost in range(MAX_LOST):
            assert decoders.decoded(body) is None
            assert len(addon) == (lost == MAX_LOST - 1)
        assert f"{MAX_LOST} times: bodies are shown as they are" in addon[0]
        assert decoders.decoded(b"a=1") is None
    finally:
        decoders.close()


def test_the_body_of_a_record_is_decoded_if_it_is_complete() -> None:
    record = MessageRecord(
        ts_ns=0, stream=1, connection="a-b", type="publish", outcome="sent", size=3, body="a=1",
        properties={"content_type": "text/letter"},
    )  # fmt: skip
    decoded = with_decoded_body(record).decoded
    assert decoded is not None
    assert (decoded["form"], decoded["value"]["type"]) == ("letter", "text/letter")
    record.size = 4
    assert with_decoded_body(record) is record


def test_without_an_addon_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(addons.CHOSEN, "none")
    addons.installed.cache_clear()
    addon_bodies.addon_bodies.cache_clear()
    assert addon_bodies.addon_bodies() is None
    assert decoded_body(b"a=1", {}) is None
