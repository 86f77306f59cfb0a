"""The frames of one connection that a filter lets by: those of the commands for which it holds."""

from __future__ import annotations

from amqproxy.amqp091.commands import MAX_BODY, Command
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frames import HEADER, HEARTBEAT, METHOD, Frame
from amqproxy.amqp091.grammar import CLIENT, Peer
from amqproxy.amqp091.methods import BY_INDEX
from amqproxy.rules.filters import Filter, FilterFailed
from amqproxy.rules.introduction import introduced
from amqproxy.rules.seen import Client, Seen
from amqproxy.rules.verdict import Stage


class Sieve:
    """Sifts what both peers of a connection say, from its beginning.

    A message comes when as much of it has come as the filter asks about; the order within a channel stays.
    """

    def __init__(self, chosen: Filter, client: Client) -> None:
        self._filter = chosen
        self._stage = chosen.condition.stage
        self._client = client
        self._held: dict[tuple[Peer, int], list[Frame]] = {}
        self._passes: dict[tuple[Peer, int], bool] = {}

    def sift(self, sender: Peer, frames: list[Frame], time: float) -> list[Frame]:
        """Of these frames, and of those held back before, the ones that are let by now; `time` is as in `Seen`."""
        passed: list[Frame] = []
        for frame in frames:
            passed += self._sift(sender, frame, time)
        return passed

    def _sift(self, sender: Peer, frame: Frame, time: float) -> list[Frame]:
        place = (sender, frame.channel)
        if frame.kind == METHOD:
            self._learn(sender, frame)
            carries_content = BY_INDEX[frame.index].carries_content
            self._held.pop(place, None)
            if carries_content and self._stage > Stage.METHOD:
                self._held[place] = [frame]
                return []
            self._passes[place] = passes = self._holds(sender, [frame], time)
            return [frame] if passes else []
        if frame.kind == HEARTBEAT:
            return [frame] if self._holds(sender, [frame], time) else []
        held = self._held.get(place)
        if held is None:
            return [frame] if self._passes.get(place) else []
        held.append(frame)
        is_enough = self._stage is Stage.HEADER or Command.received(held).is_complete
        if frame.kind == HEADER and frame.body_size > MAX_BODY:
            is_enough = True
        if not is_enough:
            return []
        del self._held[place]
        self._passes[place] = passes = self._holds(sender, held, time)
        return held if passes else []

    def _learn(self, sender: Peer, frame: Frame) -> None:
        if sender is CLIENT and frame.channel == 0:
            try:
                self._client = introduced(self._client, frame.method)
            except ProtocolError:
                return  # its record says what is wrong with it

    def _holds(self, sender: Peer, frames: list[Frame], time: float) -> bool:
        """Does the filter hold? What it fails on, or what is malformed, is let by: somebody should see that."""
        seen = Seen(sender=sender, command=Command.received(frames), client=self._client, now=time, time=time)
        try:
            return self._filter.condition.holds(seen)
        except TypeError:
            return False  # a heartbeat has nothing of what is asked about
        except (FilterFailed, ProtocolError):
            return True
