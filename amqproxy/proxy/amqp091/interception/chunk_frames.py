"""The unprocessed frames of one received chunk, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from amqproxy.amqp091.frame import HEADER, METHOD, OVERHEAD, Frame, every_frame
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.rules.verdict import Stage


class ChunkFrames:
    """The frames of a chunk that a reader has handed over, or all its frames once it has been `read_again`."""

    __slots__ = ("_handed_over", "_reader", "coming")

    def __init__(self, reader: FrameReader, frames: Iterable[Frame] = ()) -> None:
        self._reader = reader
        self.coming = deque(frames)
        self._handed_over: dict[int, Frame] | None = None

    def read_again(self, start: int) -> None:
        """Parse all bytes from offset `start` on, including frames that were not handed over.

        A channel is watched since the chunk was read, so that its other frames are needed, too. This is done at most
        once a chunk, since all frames are available afterwards.
        """
        if self._handed_over is not None:
            return
        reader = self._reader
        handed_over = self._handed_over = {frame.offset: frame for frame in self.coming}
        data = bytes(reader.taken[start - reader.taken_from :])
        frames = every_frame(data, start, reader.content_states)
        self.coming = deque([handed_over.get(frame.offset, frame) for frame in frames])

    def is_wanted(self, frame: Frame, newly_watched: set[int]) -> bool:
        """Whether the frame was handed over, or belongs to a channel that is watched since."""
        if self._handed_over is None or frame.offset in self._handed_over:
            return True
        if frame.channel not in newly_watched:
            return False
        unseen = self._reader.unseen
        passes = unseen.get(frame.payload) if frame.kind == METHOD and unseen else None
        if passes is not None:
            passes.take_back()
        return True

    def take_command(self, first: Frame, stage: Stage) -> list[Frame] | None:
        """Take the frames of `first`'s command that `stage` needs; `None` if they are not contiguous in this chunk."""
        frames = [first]
        left = -1
        end = end_of(first)
        for frame in self.coming:
            if frame.offset != end or frame.channel != first.channel or frame.kind == METHOD:
                return None
            frames.append(frame)
            size = frame.length()
            end += size
            left = frame.body_size if frame.kind == HEADER else left - size + OVERHEAD
            if left == 0 or stage is Stage.HEADER:
                break
        else:
            return None
        for _ in range(len(frames) - 1):
            self.coming.popleft()
        return frames

    def take_rest(self, frames: list[Frame], largest: int) -> None:
        """Take more frames of the same message, up to the first that is not adjacent or too large for its receiver."""
        last = frames[-1]
        end = end_of(last)
        coming = self.coming
        while coming:
            frame = coming[0]
            if frame.kind == METHOD or frame.offset != end or frame.channel != last.channel:
                break
            if not fits(frame, largest):
                break
            frames.append(coming.popleft())
            end += frame.length()


def end_of(frame: Frame) -> int:
    """Return the offset of the frame's end in its sender's byte stream."""
    return frame.offset + frame.length()


def fits(frame: Frame, largest: int) -> bool:
    """Whether a receiver of frames of at most this size accepts the frame; if not, the body has to be split."""
    return not largest or frame.length() <= largest
