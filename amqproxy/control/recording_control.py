"""An operator's control of the recording: start, stop, status."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from amqproxy.configuration.config import RecordConfig
from amqproxy.configuration.config_file import explained
from amqproxy.configuration.quantities import numbered
from amqproxy.control.request import ShowRecording, StartRecording, StopRecording
from amqproxy.control.request_error import RequestError
from amqproxy.recording.recorder import AlreadyRecording, NotRecordable, NotRecording, Recorder, RecorderStatus

RecordingRequest = StartRecording | StopRecording | ShowRecording


class RecordingControl:
    """Handler of requests about recordings; `config`, the proxy's [record], gives the settings that they leave open.

    `check` returns the effective settings, and raises `ValueError` for invalid ones.
    """

    def __init__(
        self,
        recorder: Recorder,
        config: RecordConfig | None,
        check: Callable[[RecordConfig], RecordConfig] = lambda config: config,
    ) -> None:
        self._recorder = recorder
        self._config = config
        self._check = check

    async def answer(self, request: RecordingRequest) -> dict[str, Any]:
        """Carry out a request, and return the recording's status.

        `RequestError`: `not-recording`, `already-recording`, `not-recordable`, or `malformed` settings.
        """
        match request:
            case StartRecording():
                status = await self._start(self._settings(request.settings))
            case StopRecording():
                try:
                    status = await self._recorder.stop()
                except NotRecording as error:
                    raise RequestError("not-recording", str(error)) from None
            case ShowRecording():
                status = self._recorder.status
        return {"recording": msgspec.structs.asdict(status)}

    async def _start(self, config: RecordConfig) -> RecorderStatus:
        try:
            return await self._recorder.start(config)
        except AlreadyRecording as error:
            raise RequestError("already-recording", str(error)) from None
        except NotRecordable as error:
            raise RequestError("not-recordable", str(error)) from None

    def _settings(self, given: dict[str, Any]) -> RecordConfig:
        own = {} if self._config is None else msgspec.to_builtins(self._config)
        if "directory" not in given and "directory" not in own:
            raise RequestError("malformed", "settings.directory: this proxy has no [record]: say where to record")
        try:
            return self._check(msgspec.convert(numbered(RecordConfig, {**own, **given}), RecordConfig))
        except msgspec.ValidationError as error:
            raise RequestError("malformed", f"settings.{explained(error)}") from None
        except ValueError as error:
            raise RequestError("malformed", f"settings{error}") from None
