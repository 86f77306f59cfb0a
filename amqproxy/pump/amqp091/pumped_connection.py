"""An AMQP 0-9-1 connection that a pump relays."""

from __future__ import annotations

from amqproxy.pump.pumped_connection import PumpedConnection

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython


@cython.final
@cython.cclass
class Amqp091PumpedConnection(PumpedConnection):
    """Pumped 0-9-1 connection with the channels whose frame order the readers check."""

    @cython.cfunc
    def _load(self, reader: object, direction: DirectionPointer) -> object:
        own: FrameReader = reader
        state: ContentState
        place: cython.Py_ssize_t
        direction.payload_max = own._payload_max
        direction.header_max = own.header_max
        self._new_channels(direction, len(own.content_states))
        for place, number in enumerate(sorted(own.content_states)):
            state = own.content_states[number]
            direction.channels[place].number = number
            direction.channels[place].expects = state.expects
            direction.channels[place].index = state.index
            direction.channels[place].remaining = state.remaining
            direction.channels[place].contents = state.contents
        return None

    @cython.cfunc
    def _empty(self, reader: object) -> object:
        own: FrameReader = reader
        own._tail = None
        return None

    @cython.cfunc
    def _show_channels(self, reader: object, direction: DirectionPointer) -> object:
        own: FrameReader = reader
        state: ContentState
        channel: ChannelContentPointer
        place: cython.int
        for place in range(direction.channel_count):
            channel = cython.address(direction.channels[place])
            state = own.content_states.get(channel.number)
            if state is not None:
                state.expects = look_int(cython.address(channel.expects))
                state.index = look_int(cython.address(channel.index))
                state.remaining = look(cython.address(channel.remaining))
                state.contents = look(cython.address(channel.contents))
        return None
