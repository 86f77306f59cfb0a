"""The sequence of commands between the peers: `--sequence`, as text or as a picture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from amqproxy.capture.decoded import Decoded
from amqproxy.capture.filtering import filtered
from amqproxy.capture.selection.selection import Selection
from amqproxy.rules.matching.filters import Filter
from amqproxy.views.ladder import USUAL_ROWS, Ladder
from amqproxy.views.passed_command import PassedKind
from amqproxy.views.passed_commands import commands_of


class LadderView:
    """Draws a ladder of at most `most` rows with `draw` after the last capture."""

    def __init__(
        self,
        selection: Selection,
        wanted: Filter | None,
        draw: Callable[[Ladder], Iterator[str]],
        *,
        most: int = USUAL_ROWS,
    ) -> None:
        self._selection = selection
        self._wanted = wanted
        self._draw = draw
        self._ladder = Ladder(most)

    def lines(self, decoded: Iterable[Decoded]) -> Iterator[str]:
        chosen: Iterable[Decoded] = self._selection.connections(decoded)
        if self._wanted is not None:
            chosen = filtered(chosen, self._wanted)
        for command in commands_of(chosen):
            is_end = command.kind is PassedKind.END
            if not self._selection.shows(command.ts_ns, self._selection.channel if is_end else command.channel):
                continue
            client_stream = self._selection.client_stream(command.stream)
            if client_stream is None:
                self._ladder.add(command)
            elif command.note.leg == "upstream" or command.kind is PassedKind.ERROR:
                self._ladder.add(command, client_stream)
            else:
                self._ladder.pair(client_stream)  # it is already shown, as the same command on the other leg
        return iter(())

    def finish(self) -> Iterator[str]:
        return self._draw(self._ladder)
