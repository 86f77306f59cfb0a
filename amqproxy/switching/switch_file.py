"""The file that keeps the switches of a proxy."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec
import trio

from amqproxy.configuration.config import ConfigError
from amqproxy.switching.switch import Switch

MAX_SIZE = 64 * 1024 * 1024
"""Limit of the file's size in bytes."""


class _Content(msgspec.Struct, frozen=True):
    switches: tuple[Switch, ...]
    version: int = 1


class SwitchFile:
    """The file at `path`. It is replaced as a whole, so that a proxy that is killed leaves the old one or the new."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> tuple[Switch, ...]:
        """Return the switches, none if there is no file; raise `ConfigError` if it cannot be read.

        A proxy that ignored it would lead clients to the broker that their messages have left.
        """
        try:
            with self.path.open("rb") as file:
                content = msgspec.json.decode(file.read(MAX_SIZE), type=_Content)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise ConfigError(f"switching.state: {self.path}: {error.strerror}") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"switching.state: {self.path} is not a file of switches: {error}") from None
        if content.version != 1:
            raise ConfigError(
                f"switching.state: {self.path} is of version {content.version}: a later amqproxy wrote it"
            )
        return content.switches

    async def keep(self, switches: Iterable[Switch]) -> None:
        """Replace the file as `save` does, in a thread, since a disk may hang."""
        await trio.to_thread.run_sync(self.save, switches)

    def save(self, switches: Iterable[Switch]) -> None:
        """Replace the file; raise `OSError` if that fails. It is on the disk when this returns."""
        data = msgspec.json.encode(_Content(tuple(switches)))
        new = self.path.with_name(f"{self.path.name}.new")
        with new.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path)
        directory = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
