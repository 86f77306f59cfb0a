"""Bodies that harm what decodes them, in processes of their own: no other body is harmed, and none takes for ever."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from amqproxy.bodies.body_child import BodyTask
from amqproxy.bodies.body_views import NotInForm
from amqproxy.dashboard import body_reader
from amqproxy.dashboard.body_reader import BodyReader, TooManyBodies
from tests.dashboard.hostile_bodies import avro_bottomless, avro_without_end, packed_fields

pytestmark = pytest.mark.once

Outcome = TypeVar("Outcome")

GOOD = BodyTask(body=b'{"order": 7}', form="auto", content_type="application/json")
AVRO = "application/avro"


def reading(work: Callable[[BodyReader], Awaitable[Outcome]], seconds: float = 3.0) -> Outcome:
    """What comes of this work with a reader."""

    async def work_and_stop() -> Outcome:
        reader = BodyReader(seconds)
        try:
            return await work(reader)
        finally:
            await reader.stop()

    return asyncio.run(work_and_stop())


@pytest.mark.parametrize(
    "body", [avro_without_end(), avro_bottomless(), packed_fields()], ids=["endless", "deep", "many"]
)
def test_a_hostile_body_is_shown_in_hex_and_harms_no_other(body: bytes) -> None:
    form = AVRO if body.startswith(b"Obj") else "application/protobuf"

    async def work(reader: BodyReader) -> None:
        hostile = asyncio.create_task(reader.view(BodyTask(body=body, form="auto", content_type=form)))
        beside = [await reader.view(GOOD) for _ in range(3)]
        assert {json.loads(each.text)["order"] for each in beside} == {7}
        assert (await hostile).form == "hex"
        assert json.loads((await reader.view(GOOD)).text) == {"order": 7}

    reading(work, 1.0)


def test_where_a_form_is_named_the_reason_is_given() -> None:
    async def work(reader: BodyReader) -> None:
        with pytest.raises(NotInForm, match=r"takes too long|too large"):
            await reader.view(BodyTask(body=avro_without_end(), form="avro"))
        with pytest.raises(NotInForm, match="has failed at it"):
            await reader.view(BodyTask(body=avro_bottomless(), form="avro"))
        with pytest.raises(NotInForm, match="no text in UTF-8"):
            await reader.view(BodyTask(body=b"\xff", form="text"))

    reading(work, 1.0)


def test_no_more_wait_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_reader, "MAX_WAITING", 2)

    async def work(reader: BodyReader) -> None:
        first = [asyncio.create_task(reader.view(GOOD)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(TooManyBodies):
            await reader.view(GOOD)
        assert len(await asyncio.gather(*first)) == 2
        assert (await reader.view(BodyTask(body=b"\0", form="hex"))).form == "hex"

    reading(work)


def test_a_process_is_used_again_until_it_was_idle_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_reader, "IDLE_SECONDS", 0.01)

    async def work(reader: BodyReader) -> None:
        await reader.view(GOOD)
        ((process, _),) = reader._idle
        await reader.view(GOOD)
        assert reader._idle[0][0] is process
        async with asyncio.timeout(10):
            await process.wait()
        assert not reader._idle
        assert (await reader.view(GOOD)).form == "json"

    reading(work)
