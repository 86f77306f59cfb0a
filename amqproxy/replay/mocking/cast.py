"""Assignment of recorded connections to live ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic

from amqproxy.replay.mocking.server_script import C, Key, ServerScript


class Cast(Generic[C]):
    """The scripts, and how often each was played: once at most, or any number of times with `is_loop`."""

    def __init__(self, scripts: Sequence[ServerScript[C]], *, is_loop: bool = False) -> None:
        self.scripts = scripts
        self._is_loop = is_loop
        self._played: dict[int, int] = {}

    def take(self, script: ServerScript[C]) -> None:
        """Count a script as played by a live connection."""
        self._played[script.stream] = self._played.get(script.stream, 0) + 1

    def refused(self, user: str) -> ServerScript[C] | None:
        """Return the next script of a user if the recorded server refused that login, else None."""
        script = next((each for each in self._left() if each.user == user), None)
        return script if script is not None and script.refused is not None and script.virtual_host is None else None

    def first(self, user: str = "", mechanism: str = "") -> ServerScript[C] | None:
        """Return the script whose handshake is played before the connection is identified; None without scripts."""
        left = self._left()
        tuned = [each for each in left if each.tune]
        same = [each for each in tuned if each.user == user]
        return next(iter([*(each for each in same if each.mechanism == mechanism), *same, *tuned, *left]), None)

    def candidates(self, name: str, user: str, virtual_host: str) -> list[ServerScript[C]]:
        """Return the scripts that a live connection may play: of the same client, or else user, or else virtual host.

        The least often played come first.
        """
        left = self._left()
        for found in (
            [
                each
                for each in left
                if name and (each.client_name, each.user, each.virtual_host) == (name, user, virtual_host)
            ],
            [each for each in left if (each.user, each.virtual_host) == (user, virtual_host)],
            [each for each in left if each.virtual_host == virtual_host],
            [each for each in left if each.virtual_host is None],  # their beginning is not in the recording
        ):
            if found:
                return found
        return []

    def _left(self) -> list[ServerScript[C]]:
        if not self._is_loop:
            return [each for each in self.scripts if each.stream not in self._played]
        return sorted(self.scripts, key=lambda each: self._played.get(each.stream, 0))


def chosen(
    candidates: Sequence[ServerScript[C]], number: int, key: Key, is_like: Callable[[C], bool]
) -> ServerScript[C]:
    """Return the script whose beginning is most like a live connection's.

    `key` is that of the live connection's first command, `number` its channel; `is_like` compares it with a recorded
    command.
    """

    def score(script: ServerScript[C]) -> int:
        channel = next((each for each in script.channels if each.number == number), None)
        if channel is None or not channel.commands:
            return 0
        if channel.commands[0].key == key:
            return 3 if is_like(channel.commands[0].command) else 2
        return int(any(each.key == key for each in channel.commands))

    return max(candidates, key=score)  # the first of those that are equal
