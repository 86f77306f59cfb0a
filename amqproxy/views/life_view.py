"""Lives of messages in captures, across connections: `--life`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from amqproxy.capture.decoded import Decoded
from amqproxy.capture.observed import Observers
from amqproxy.capture.selection.selection import Selection
from amqproxy.linking.life_record import life_record
from amqproxy.linking.life_text import life_lines
from amqproxy.linking.message_life import MessageLife
from amqproxy.linking.message_linker import MessageLinker
from amqproxy.taps.observer import ObserverSettings, OnEvents

ALL = "all"
"""Selects every message."""

MEMORY = 512 * 1024 * 1024
"""Bytes of lives that are remembered."""

_SETTINGS = ObserverSettings(messages=False, digests=True)


class LifeView:
    """Renders the lives of all messages, or of those with this message_id, when the capture ends.

    Those that are forgotten before, since there are too many, are rendered when that happens.
    """

    def __init__(self, selection: Selection, message_id: str, *, json: bool = False, memory: int = MEMORY) -> None:
        self._selection = selection
        self._message_id = message_id
        self._json = json
        self.shown = 0
        """Number of lives that were rendered."""
        self._forgotten: list[str] = []
        self._linker = MessageLinker(memory, on_forgotten=self._forget)
        self._observers = Observers(_SETTINGS, None, self._listener)

    def lines(self, decoded: Iterable[Decoded]) -> Iterator[str]:
        for each in self._selection.connections(decoded):
            self._observers.feed(each)
            if self._forgotten:
                yield from self._forgotten
                self._forgotten.clear()

    def finish(self) -> Iterator[str]:
        for life in self._linker.lives.values():
            if self._is_shown(life):
                yield self._rendered(life)

    def _listener(self, stream: int, connection: str) -> OnEvents:
        return lambda events, note: self._linker.take(stream, events, note)

    def _forget(self, life: MessageLife) -> None:
        if self._is_shown(life):
            self._forgotten.append(self._rendered(life))

    def _is_shown(self, life: MessageLife) -> bool:
        return self._message_id == ALL or life.message_id == self._message_id

    def _rendered(self, life: MessageLife) -> str:
        self.shown += 1
        record = life_record(life, self._linker.connections)
        return record.to_json().decode() if self._json else "\n".join(life_lines(record))
