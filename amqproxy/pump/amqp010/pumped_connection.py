"""An AMQP 0-10 connection that a pump relays."""

from __future__ import annotations

from amqproxy.pump.pumped_connection import PumpedConnection

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython


@cython.final
@cython.cclass
class Amqp010PumpedConnection(PumpedConnection):
    """Pumped 0-10 connection with sessions attached to its `channels`, each of which has two tracks.

    The number of a track is twice that of its channel, plus 1 for commands. `expects` is its state in the reader,
    `index` its state when it was handed over, and `contents` counts the commands that have begun on it. Once the
    connection is back, the readers and the `numberings` of both peers know which commands have passed.
    """

    def __init__(
        self,
        readers: tuple,
        numberings: tuple,
        channels: object,
        descriptors: tuple,
        returned: object,
        note: object = None,
    ) -> None:
        self._numberings = numberings
        # The connection's controls come on channel 0, whether a session is attached to it or not.
        self._tracks = sorted({0} | {track for channel in channels for track in (2 * channel, 2 * channel + 1)})
        super().__init__(readers, descriptors, returned, note)

    @cython.cfunc
    def _load(self, reader: object, direction: DirectionPointer) -> object:
        own: FrameReader = reader
        place: cython.int
        state: cython.int
        direction.payload_max = own._frame_max
        self._new_channels(direction, len(self._tracks))
        for place, track in enumerate(self._tracks):
            state = own._state if own._track == track else own._states.get(track, own._fresh)
            direction.channels[place].number = track
            direction.channels[place].expects = direction.channels[place].index = state
        return None

    @cython.cfunc
    def _empty(self, reader: object) -> object:
        own: FrameReader = reader
        own._tail = None
        return None

    @cython.cfunc
    def _show_channels(self, reader: object, direction: DirectionPointer) -> object:
        own: FrameReader = reader
        place: cython.int
        state: cython.int
        track: cython.int
        on: ChannelContentPointer
        if self.is_pumped:
            return None
        for place in range(direction.channel_count):
            on = cython.address(direction.channels[place])
            track, state = on.number, on.expects
            if own._track == track:
                own._state = state
            elif state != own._fresh:
                own._states[track] = state
            else:
                own._states.pop(track, None)
            if track & 1 and (on.contents or state != on.index):
                self._numberings[direction.place].skip(track >> 1, on.contents, is_under_way=state & 0x7F != 0)
            on.index = state
            on.contents = 0
        return None
