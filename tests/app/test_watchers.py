"""What watches: opened as the config has it, and finished in order."""

from pathlib import Path

import pytest
import trio

from amqproxy.app.address_unavailable import AddressUnavailable
from amqproxy.app.printing import PrintSettings
from amqproxy.app.watchers import Watchers
from amqproxy.configuration.config import Config, DashboardConfig, ListenerConfig, RecordConfig

LISTEN = (ListenerConfig(address="127.0.0.1:0"),)


async def test_with_nothing_configured_nothing_watches() -> None:
    watchers = Watchers(Config(listen=LISTEN), None)
    with watchers.open():
        watchers.attach(lambda tap: pytest.fail("nothing asked for a tap"), "broker")
        assert watchers.tap is None
        assert watchers.control is None
        async with trio.open_nursery() as nursery:
            assert watchers.start(nursery, None) is None
            await watchers.finish()
            await watchers.finish_printing()
            nursery.cancel_scope.cancel()
    watchers.check_reader()


async def test_what_is_printed_is_a_tap_from_the_first_session_on() -> None:
    watchers = Watchers(Config(listen=LISTEN), PrintSettings(render=str))
    assert watchers.tap is not None


async def test_a_directory_that_cannot_be_recorded_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    watchers = Watchers(Config(listen=LISTEN), None)
    watchers.attach(lambda tap: None, "broker")
    with pytest.raises(AddressUnavailable, match="file"):
        await watchers.record(RecordConfig(directory=str(tmp_path / "file")))


def test_a_dashboard_without_any_temporary_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr("amqproxy.app.dashboard_process.TemporaryDirectory", refuse)
    watchers = Watchers(Config(listen=LISTEN, dashboard=DashboardConfig(listen="127.0.0.1:0")), None)
    with (
        pytest.raises(AddressUnavailable, match="control socket for the dashboard or the management API: No usable"),
        watchers.open(),
    ):
        pytest.fail("it is open")
