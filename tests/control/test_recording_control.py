"""An operator begins a recording, ends it, and sees how it stands."""

from pathlib import Path
from typing import Any

import pytest

from amqproxy.configuration.config import Limits, RecordConfig
from amqproxy.control.hub import Hub
from amqproxy.control.recording_control import RecordingControl
from amqproxy.control.request import ShowRecording, StartRecording, StopRecording
from amqproxy.control.request_error import RequestError
from amqproxy.recording.recorder import Recorder
from amqproxy.taps.metrics import Metrics


def control(config: RecordConfig | None = None) -> RecordingControl:
    hub = Hub(None, lambda tap: None)
    return RecordingControl(Recorder(Limits(), Metrics(), hub.add, hub.remove), config)


async def test_from_start_to_stop(tmp_path: Path) -> None:
    asked = control()
    assert not (await asked.answer(ShowRecording()))["recording"]["is_recording"]
    answer = await asked.answer(StartRecording(settings={"directory": str(tmp_path), "file_size": "1MiB"}))
    assert answer["recording"]["is_recording"]
    assert answer["recording"]["directory"] == str(tmp_path)
    with pytest.raises(RequestError, match="already recording into"):
        await asked.answer(StartRecording(settings={"directory": str(tmp_path)}))
    answer = await asked.answer(StopRecording())
    assert not answer["recording"]["is_recording"]
    with pytest.raises(RequestError, match="there is no recording"):
        await asked.answer(StopRecording())


async def test_what_is_not_given_is_the_proxys_own(tmp_path: Path) -> None:
    asked = control(RecordConfig(directory=str(tmp_path), compress=False))
    assert (await asked.answer(StartRecording()))["recording"]["directory"] == str(tmp_path)
    await asked.answer(StopRecording())


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({}, "this proxy has no [record]: say where to record"),
        ({"directory": "/none/none"}, "cannot record into /none/none: No such file or directory"),
        ({"directory": "x", "file_size": "much"}, "settings.file_size"),
        ({"directory": "x", "file_size": 1}, "settings.file_size"),
        ({"directory": "x", "colour": 1}, "settings"),
        ({"directory": "x", "filter": "method =="}, "filter"),
    ],
)
async def test_what_is_wrong_is_said(settings: dict[str, Any], fault: str) -> None:
    with pytest.raises(RequestError) as refused:
        await control().answer(StartRecording(settings=settings))
    assert fault in str(refused.value)


async def test_a_name_that_no_directory_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="embedded null"):
        await control().answer(StartRecording(settings={"directory": f"{tmp_path}/a\0b"}))
