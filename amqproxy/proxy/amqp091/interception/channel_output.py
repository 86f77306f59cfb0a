"""Output of one channel: commands forwarded, altered, postponed, or made by the proxy."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import suppress

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import InternalError, PreconditionFailed, Scope
from amqproxy.amqp091.frame import BODY, HEADER, METHOD, Frame, every_frame
from amqproxy.amqp091.methods import BasicCancel, BasicCancelOk, BasicDeliver, BasicPublish, ConfirmSelect
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp091.interception.actions import Insert, Postpone, Send, SendDamaged, Watch
from amqproxy.proxy.amqp091.interception.channel_direction import ChannelDirection, ContentRest, PostponedDelivery
from amqproxy.proxy.amqp091.interception.channel_owner import ChannelOwner
from amqproxy.proxy.amqp091.interception.channel_tags import ChannelTags
from amqproxy.proxy.amqp091.interception.encoding import UNPLACED, altered
from amqproxy.proxy.amqp091.interception.tag_translation import UnknownDeliveryTag
from amqproxy.proxy.interception.actions import Action, Actions, CloseChannel, LogVerdict, ShowToTaps, damaged
from amqproxy.rules.engine.outcome import Outcome
from amqproxy.rules.verdict import Close, Insertion, Verdict
from amqproxy.taps.note import LEGS, NOTHING, Note

CONSUMER_ENDS = frozenset({BasicCancel.index, BasicCancelOk.index})
"""Server methods after which nothing more may be sent to a consumer."""


class ChannelOutput:
    """Sender of a channel's commands, with the numbers that each receiver knows."""

    __slots__ = ("_around", "_directions", "_number", "_tags")

    def __init__(
        self, number: int, around: ChannelOwner, directions: Mapping[Peer, ChannelDirection], tags: ChannelTags
    ) -> None:
        self._number = number
        self._around = around
        self._directions = directions
        self._tags = tags

    def pass_on(
        self, direction: ChannelDirection, original: Command, command: Command, verdict: Verdict, note: Note
    ) -> Generator[Action, None, ContentRest]:
        """Forward a command, unchanged or altered; return how its remaining frames are treated."""
        sender = direction.sender
        frame_max = self._around.connections[sender.other].frame_max
        try:
            if command is original:
                frames, rest = original.frames, ContentRest.PASSES
            elif command.frames:
                frames, rest = altered(command), ContentRest.PASSES
            else:
                frames, rest = every_frame(command.encode(frame_max), UNPLACED), ContentRest.IS_SWALLOWED
        except Exception as error:  # noqa: BLE001 - a rule may have put anything there
            what = f"what cannot be encoded ({type(error).__name__})"
            yield from self._refuse_made(original, what, verdict.marks, note)
            return ContentRest.IS_SWALLOWED
        if command is not original and (size := self._excess_size(sender.other, frames)):
            yield from self._refuse_large(command, size, frame_max, verdict.marks, note)
            return ContentRest.IS_SWALLOWED
        if verdict.damage:
            yield SendDamaged(sender, damaged(frames[0].raw, verdict.damage))
            frames = frames[1:]
        yield from self.send_frames(sender, frames, note, verdict.shown)
        return rest

    def _refuse_large(
        self, command: Command, size: int, frame_max: int, rules: Sequence[str] = (), note: Note = NOTHING
    ) -> Actions:
        """Refuse a command that rules have made larger than its receiver's frames: only a body can be split."""
        return self._refuse_made(command, f"a frame of {size} bytes, where {frame_max} is the most", rules, note)

    def _refuse_made(self, command: Command, made: str, rules: Sequence[str], note: Note) -> Actions:
        by = f" by rule '{rules[-1]}'" if rules else ""
        yield LogVerdict("error", f"refused what was made{by}: {made}")
        text = InternalError(f"rules made {made}").reply_text
        if note.verdict:
            note = note._replace(verdict=Outcome.REFUSED)
        yield CloseChannel(command, Close(Scope.CHANNEL, InternalError.code, text), note)

    def postpone(self, direction: ChannelDirection, command: Command, tag: int, behind: int) -> Actions:
        self._tags.receive(tag, is_acked=self._tags.is_acked())
        postponed = PostponedDelivery(command, tag, behind)
        direction.postpone(postponed)
        yield Postpone(direction, postponed)

    def send_postponed(self, direction: ChannelDirection, those: Iterable[PostponedDelivery]) -> Actions:
        """Send postponed deliveries, whether they were overtaken or not."""
        direction.no_longer_postponed(those)
        for each in those:
            yield Insert(Insertion(CLIENT, each.command), each.tag)

    def overtake(self, direction: ChannelDirection, command: Command, note: Note = NOTHING) -> Actions:
        """Count a command as overtaking postponed deliveries, and send those that were overtaken often enough."""
        for each in direction.overtaken_by(command.index) if direction.postponed else ():
            yield Insert(Insertion(CLIENT, each.command), each.tag, note)

    def insert_waiting(self, direction: ChannelDirection, note: Note = NOTHING) -> Actions:
        while direction.insertions and not direction.is_mid:
            command, tag = direction.next_own()
            yield from self.send_own(direction.sender.other, command, tag, note)

    def send_own(self, to: Peer, command: Command, tag: int | None, note: Note) -> Actions:
        """Send a command that was not just received, with the receiver's next number if it has one."""
        method = command.method
        if isinstance(method, BasicPublish):
            yield from self._tags.number_confirms()
            self._tags.insert_publish()
        elif isinstance(method, BasicDeliver):
            command = self._tags.handed_out(command, tag)
        elif self._tags.expect_own_reply(to, method):
            yield Watch()
        frame_max = self._around.connections[to].frame_max
        frames = every_frame(command.encode(frame_max), UNPLACED)
        if size := self._excess_size(to, frames):
            yield from self._refuse_large(command, size, frame_max, note=note)
        else:
            yield Send(to.other, frames, note._replace(leg=LEGS[to]))

    def _excess_size(self, to: Peer, frames: Sequence[Frame]) -> int:
        """Return the size of the first frame that exceeds its receiver's limit and cannot be split; 0 if there is none.

        A client is sent larger content headers, as RabbitMQ does.
        """
        connection = self._around.connections[to]
        if not connection.frame_max:
            return 0
        for frame in frames[:2]:
            header_max = connection.readers[to.other].header_max if frame.kind == HEADER else 0
            if frame.kind != BODY and frame.length() > max(connection.frame_max, header_max):
                return frame.length()
        return 0

    def send_frames(
        self, sender: Peer, frames: Sequence[Frame], note: Note = NOTHING, shown: Command | None = None
    ) -> Actions:
        """Send the frames of a command, beginning with its method, with the numbers that the receiver knows."""
        if not frames:
            return
        first = frames[0]
        if first.kind == METHOD and self._number:
            if sender is SERVER and first.index in CONSUMER_ENDS and self._directions[SERVER].postponed:
                tag = first.method.consumer_tag
                direction = self._directions[SERVER]
                yield from self.send_postponed(
                    direction, [each for each in direction.postponed if _consumer_of(each) == tag]
                )
            try:
                translated = self._tags.translated(sender, first)
            except UnknownDeliveryTag:
                text = f"{PreconditionFailed.name} - unknown delivery tag {first.method.delivery_tag}"
                yield CloseChannel(Command.received([first]), Close(Scope.CHANNEL, 406, text))
                translated = []
            if translated != [first]:
                if shown is None and self._around.is_tapped:  # the two legs have different numbers for it
                    yield ShowToTaps(sender, [first], note._replace(leg=LEGS[sender]))
                yield Send(sender, translated, note._replace(leg=LEGS[sender.other]), shown is None)
                frames = frames[1:]
        yield Send(sender, frames, note, shown is None)
        if first.index == ConfirmSelect.index and self._around.numbers_confirms:
            yield from self._tags.number_confirms()
        if shown is not None:
            yield ShowToTaps(sender, frames_shown(None, shown), note)


def frames_shown(command: Command | None, covered: Command | None) -> Sequence[Frame]:
    """Return the frames of a command as taps may see it; none if it cannot be encoded."""
    if covered is None or covered is command:
        return covered.frames if covered is not None else ()
    with suppress(Exception):
        return every_frame(covered.encode(0), UNPLACED)
    return ()


def _consumer_of(postponed: PostponedDelivery) -> str:
    return str(postponed.command.method.consumer_tag)
