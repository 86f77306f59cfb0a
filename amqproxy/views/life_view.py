"""Lives of messages, across connections: `--life`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from amqproxy.capture.decoded import Decoded
from amqproxy.capture.observed import Observers
from amqproxy.capture.selection.selection import Selection
from amqproxy.linking.life_record import life_record
from amqproxy.linking.life_text import life_lines, steps, title
from amqproxy.linking.message_life import KEPT_FIRST, MessageLife
from amqproxy.linking.message_linker import MessageLinker
from amqproxy.taps.observer import ObserverSettings, OnEvents

ALL = "all"
"""Selects every message."""

MEMORY = 512 * 1024 * 1024
"""Bytes of lives that are remembered."""

CHANGES_AT_ONCE = KEPT_FIRST
"""Changes of a life that are rendered together: fewer than the newest deliveries that it keeps."""

_SETTINGS = ObserverSettings(messages=False, digests=True)


class LifeView:
    """Renders the lives of all messages, or of those with this message_id, when the capture ends.

    Those that are forgotten before, since there are too many, are rendered when that happens. With `follows`, as for
    live traffic, each step is rendered once its outcome is known, and the end renders those without one; in JSON, a
    life is rendered as a whole each time. Lives are rendered after all traffic of one call, or `CHANGES_AT_ONCE`: a
    message that is delivered without end has hundreds of steps.
    """

    def __init__(
        self,
        selection: Selection,
        message_id: str,
        *,
        json: bool = False,
        memory: int = MEMORY,
        follows: bool = False,
        lay_out: Callable[[str], str] = str,
    ) -> None:
        """Render with `lay_out` applied to the lines for people."""
        self._selection = selection
        self._message_id = message_id
        self._json = json
        self._lay_out = lay_out
        self.shown = 0
        """Number of lives that were rendered."""
        self._due: list[str] = []
        self._follows = follows
        self._known: dict[int, set[int]] = {}
        """Hashes of the rendered steps that each life still has, by its number."""
        self._changed: dict[int, int] = {}
        """Number of changes of each life since it was rendered, by its number."""
        self._last: int | None = None
        """The life whose steps were rendered last."""
        self._linker = MessageLinker(memory, on_forgotten=self._forget, on_changed=self._note if follows else None)
        self._observers = Observers(_SETTINGS, None, self._listener)

    def lines(self, decoded: Iterable[Decoded]) -> Iterator[str]:
        for each in self._selection.connections(decoded):
            self._observers.feed(each)
            if self._due:
                yield from self._take_due()
        changed, self._changed = self._changed, {}
        for number in changed:
            self._due += self._news(self._linker.lives[number], is_over=False)
        yield from self._take_due()

    def _take_due(self) -> list[str]:
        due, self._due = self._due, []
        return due

    def finish(self) -> Iterator[str]:
        for life in self._linker.lives.values():
            if self._is_shown(life):
                yield from self._rest(life)

    def _listener(self, stream: int, connection: str) -> OnEvents:
        return lambda events, note: self._linker.take(stream, events, note)

    def _forget(self, life: MessageLife) -> None:
        if self._is_shown(life):
            self._due += self._rest(life)
        self._known.pop(life.number, None)
        self._changed.pop(life.number, None)

    def _note(self, life: MessageLife) -> None:
        if not self._is_shown(life):
            return
        changes = self._changed.pop(life.number, 0) + 1
        if changes < CHANGES_AT_ONCE:
            self._changed[life.number] = changes
        else:
            self._due += self._news(life, is_over=False)

    def _rest(self, life: MessageLife) -> Iterator[str]:
        """Yield what was not rendered of a life."""
        return self._news(life, is_over=True) if self._follows else iter((self._rendered(life),))

    def _news(self, life: MessageLife, *, is_over: bool) -> Iterator[str]:
        record = life_record(life, self._linker.connections)
        known = self._known.get(life.number, set())
        shown = {hash(line): line for line, is_known in steps(record) if is_known or is_over or hash(line) in known}
        new = [line for each, line in shown.items() if each not in known]
        if not new:
            return
        self.shown += life.number not in self._known
        self._known[life.number] = set(shown)
        if self._json:
            yield record.to_json().decode()
            return
        if self._last != life.number:
            yield self._lay_out(title(record))
        self._last = life.number
        yield from map(self._lay_out, new)

    def _is_shown(self, life: MessageLife) -> bool:
        return self._message_id == ALL or life.message_id == self._message_id

    def _rendered(self, life: MessageLife) -> str:
        self.shown += 1
        record = life_record(life, self._linker.connections)
        return record.to_json().decode() if self._json else self._lay_out("\n".join(life_lines(record)))
