"""Counter of the messages of one connection, from its frames as the client sends and receives them.

All of it is in one module, because the compiler inlines only within a module, and all of it runs for every frame.
"""

from __future__ import annotations

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import BODY, HEADER, METHOD, Frame
from amqproxy.amqp091.methods import BasicGet, BasicGetOk
from amqproxy.taps.metering.amqp091.acknowledgement_run import AcknowledgementRun
from amqproxy.taps.metering.amqp091.channel_meter import ChannelMeter
from amqproxy.taps.metering.amqp091.channel_meters import ChannelMeters
from amqproxy.taps.metering.amqp091.message_run import MessageRun
from amqproxy.taps.metering.message_counts import Count, MessageCounts

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

if not cython.compiled:
    from amqproxy.compiled.byte_access import long_at, long_long_at, short_at

_METHOD = cython.declare(cython.int, METHOD)
_HEADER = cython.declare(cython.int, HEADER)
_BODY = cython.declare(cython.int, BODY)
_BASIC = cython.declare(cython.int, 60)
_PUBLISH = cython.declare(cython.int, 40)
_RETURN = cython.declare(cython.int, 50)
_DELIVER = cython.declare(cython.int, 60)
_GET_OK = cython.declare(cython.int, 71)
_ACK = cython.declare(cython.int, 80)
_REJECT = cython.declare(cython.int, 90)
_NACK = cython.declare(cython.int, 120)

_UNKNOWN = cython.declare(cython.ulonglong, 0xFFFF_FFFF_FFFF_FFFF)
"""Remaining body size of a content before its header: a body without a header completes nothing."""

_PUBLISHED = cython.declare(cython.int, Count.PUBLISHED)
_RETURNED = cython.declare(cython.int, Count.RETURNED)
_DELIVERED = cython.declare(cython.int, Count.DELIVERED)
_REDELIVERED = cython.declare(cython.int, Count.REDELIVERED)
_AUTO_ACKED = cython.declare(cython.int, Count.AUTO_ACKED)
_ACKED = cython.declare(cython.int, Count.ACKED)
_REJECTED = cython.declare(cython.int, Count.REJECTED)
_REQUEUED = cython.declare(cython.int, Count.REQUEUED)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _basic_method(p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
    """Return the id of a method of the class basic; 0 for one of another class."""
    if end - at < 8 + 4 or p[at + 7] | (p[at + 8] ^ _BASIC) | p[at + 9]:
        return 0
    return p[at + 10]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _settled_as(method: cython.int, flags: cython.int) -> cython.int:
    """Return the `Count` that a client's basic.ack, basic.nack or basic.reject with these bits adds to."""
    settled: cython.int = _ACKED
    if method != _ACK:
        settled = _REQUEUED if flags & (2 if method == _NACK else 1) else _REJECTED
    return settled


UnderWay = tuple[bool, bytes, int | None]
"""Content under way: whether the server sends it, the payload of its method frame, and the bytes of its body to come,
`None` before its header."""


@cython.final
@cython.cclass
class ContentUnderWay:
    """Content that a peer is sending on a channel: its `method` (0: none), and facts to count once it is complete.

    `payload` is that of its method frame.
    """

    def __init__(self) -> None:
        self.number = 0
        self.method = 0
        self.payload = b""
        self.tag = 0
        self.is_redelivered = False
        self.is_auto_acked = False
        self.size = 0
        self.remaining = 0


@cython.final
@cython.cclass
class MessageMeter:
    """Meter of one connection, from its first frame.

    It is fed whole frames, in order, with the time in seconds of any monotonic clock. `is_lost` is set if frames cannot
    be delimited, or a method cannot be read: after that, nothing of the connection is counted. A message counts once it
    is complete. `frames` is the number of frames.
    """

    # Contents of one peer's channels rarely interleave: `_interleaved` has those interrupted by another channel's.

    def __init__(self, counts: MessageCounts) -> None:
        self._counts = counts
        self._channels = ChannelMeters(counts)
        self._run = MessageRun()
        self._acknowledgements = AcknowledgementRun()
        self._client_content: ContentUnderWay | None = None
        self._server_content: ContentUnderWay | None = None
        self._interleaved: dict[tuple[bool, int], ContentUnderWay] | None = None
        self.frames = 0
        self.is_lost = False

    def channel(self, number: int) -> ChannelMeter | None:
        """Return a channel; `None` if nothing has been open on it."""
        return self._channels.by_number.get(number)

    @property
    def channels(self) -> dict[int, ChannelMeter]:
        """The open channels, by number; to be read only."""
        return self._channels.by_number

    def feed(
        self, is_server: cython.bint, data: bytes | memoryview, now: cython.double, is_cut: cython.bint = False
    ) -> None:
        """Take whole frames of the server, or of the client.

        If `is_cut`, only the first seven bytes of a body frame are present, and a `MessageRun` or an
        `AcknowledgementRun` may stand for several frames.
        """
        length: cython.Py_ssize_t = len(data)
        now_ns: cython.ulonglong = int(now * 1e9)
        if not length or self.is_lost:
            return
        p: cython.p_const_uchar
        if cython.compiled:
            p = cython.address(data[0])
        else:
            p = data  # type: ignore[assignment]
        position: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t
        is_read: cython.bint
        while position < length:
            if is_cut:
                end = self._run.restore(is_server, p, position, length)
                if end > position:
                    self._note_run(is_server, p, now_ns)
                else:
                    end = self._acknowledgements.restore(p, position, length)
                    if end > position:
                        self._note_acknowledgements(is_server, now_ns)
            else:
                end = self._take_run(is_server, p, position, length, now_ns)
            if end > position:
                position = end
                continue
            if length - position < 7:
                self._lose()
                return
            end = position + 8 + cython.cast(cython.Py_ssize_t, long_at(p, position + 3))
            if is_cut and p[position] == _BODY:
                self._take_content(is_server, p, position, end, now_ns)
                self.frames += 1
                position += 7
                continue
            if end > length or p[end - 1] != 0xCE:
                self._lose()
                return
            if p[position] == _METHOD:
                if is_server:
                    is_read = self._take_from_server(p, position, end, now_ns)
                else:
                    is_read = self._take_from_client(p, position, end, now_ns)
            elif p[position] == _HEADER or p[position] == _BODY:
                is_read = self._take_content(is_server, p, position, end, now_ns)
            else:
                is_read = True
            if not is_read:
                self._lose()
                return
            self.frames += 1
            position = end

    def contents(self) -> dict[int, list[UnderWay]]:
        """Return the contents under way, the client's first, by channel number."""
        found: dict[int, list[UnderWay]] = {}
        for is_server in (False, True):
            current: ContentUnderWay | None = self._server_content if is_server else self._client_content
            of_peer = [each for place, each in (self._interleaved or {}).items() if place[0] == is_server]
            content: ContentUnderWay | None
            for content in (*of_peer, current):
                if content is not None and content.method:
                    remaining = None if content.remaining == _UNKNOWN else content.remaining
                    found.setdefault(content.number, []).append((is_server, content.payload, remaining))
        return found

    # --- messages that are whole in one read, one after another on one channel: nearly all there are

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _take_run(
        self,
        is_server: cython.bint,
        p: cython.p_const_uchar,
        at: cython.Py_ssize_t,
        length: cython.Py_ssize_t,
        now_ns: cython.ulonglong,
    ) -> cython.Py_ssize_t:
        """Take the run of messages or acknowledgements that begins at `at`; return the offset after it."""
        content: ContentUnderWay | None = self._server_content if is_server else self._client_content
        end: cython.Py_ssize_t
        if (content is not None and content.method) or self._interleaved:
            return at
        end = self._run.take(is_server, p, at, length)
        if end > at:
            self._note_run(is_server, p, now_ns)
            return end
        end = self._acknowledgements.take(is_server, p, at, length)
        if end > at:
            self._note_acknowledgements(is_server, now_ns)
        return end

    @cython.cfunc
    def _note_run(self, is_server: cython.bint, p: cython.p_const_uchar, now_ns: cython.ulonglong) -> object:
        """Count a run of messages; `p` is the buffer that it was read from."""
        run = self._run
        self.frames += run.frames
        if is_server:
            self._counts.delivered_bytes.observe(run.size, run.count)
            self._note_deliveries(p, now_ns)
            self._counts._values[_REDELIVERED] += run.redelivered
        else:
            self._counts.published_bytes.observe(run.size, run.count)
            self._note_publishes(run.number, run.count, now_ns)
        return None

    @cython.cfunc
    def _note_publishes(self, number: cython.int, count: cython.longlong, now_ns: cython.ulonglong) -> object:
        """Count `count` publishes of the client."""
        self._counts._values[_PUBLISHED] += count
        channel = self._channels.of(False, number)
        if channel is not None and channel.confirms and not channel.is_unread:
            channel.published(now_ns, count)
        return None

    @cython.cfunc
    def _note_deliveries(self, p: cython.p_const_uchar, now_ns: cython.ulonglong) -> object:
        """Count the deliveries of the run, which was read from `p`."""
        run = self._run
        self._counts._values[_DELIVERED] += run.count
        channel = self._channels.of(True, run.number)
        if (
            channel is not None
            and channel._has_auto_acks
            and channel.is_auto_acked(p, run.consumer_at, run.consumer_size)
        ):
            self._counts._values[_AUTO_ACKED] += run.count
            return None
        if channel is None:
            channel = self._channels.new(run.number)
        channel.delivered(run.tag, now_ns, run.count)
        return None

    @cython.cfunc
    def _note_acknowledgements(self, is_server: cython.bint, now_ns: cython.ulonglong) -> object:
        """Count the settlements of the run: publishes if it is the server's, deliveries if it is the client's."""
        run = self._acknowledgements
        multiple: cython.bint = run.flags & 1 != 0
        self.frames += run.count
        self._begin(is_server, run.number, 0)
        channel = self._channels.of(is_server, run.number)
        if channel is None:
            return None
        if is_server:
            channel.confirm(run.tag, multiple, run.method == _NACK, now_ns, run.count)
        elif not channel.is_unread:
            channel.settle_run(
                run.tag, run.count, multiple and run.method != _REJECT, _settled_as(run.method, run.flags), now_ns
            )
        return None

    # --- contents

    @cython.cfunc
    def _begin(self, is_server: cython.bint, number: cython.int, method: cython.int) -> ContentUnderWay | None:
        """Begin the content of a method, or none if it is 0; an incomplete content on its channel is given up."""
        content: ContentUnderWay | None = self._server_content if is_server else self._client_content
        if self._interleaved:
            self._interleaved.pop((is_server, number), None)
        if content is not None and content.method and content.number != number:
            if not method:
                return None
            if self._interleaved is None:
                self._interleaved = {}
            self._interleaved[is_server, content.number] = content
            content = None
        if content is None:
            if not method:
                return None
            content = ContentUnderWay()
            if is_server:
                self._server_content = content
            else:
                self._client_content = content
        content.number = number
        content.method = method
        content.size = 0
        content.remaining = _UNKNOWN
        content.is_redelivered = content.is_auto_acked = False
        return content

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _take_content(
        self,
        is_server: cython.bint,
        p: cython.p_const_uchar,
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        now_ns: cython.ulonglong,
    ) -> cython.bint:
        """Take a header or a body; return `False` if it cannot be read."""
        number: cython.int = short_at(p, at + 1)
        content: ContentUnderWay | None = self._server_content if is_server else self._client_content
        if content is not None and (content.number != number or not content.method):
            content = self._interleaved.get((is_server, number)) if self._interleaved else None
        if content is None:
            return True
        if p[at] == _HEADER:
            if end - at < 8 + 12:
                return False
            content.size = content.remaining = long_long_at(p, at + 11)
        elif cython.cast(cython.ulonglong, end - at - 8) < content.remaining:
            content.remaining -= end - at - 8
        elif is_server or cython.cast(cython.ulonglong, end - at - 8) == content.remaining:
            content.remaining = 0
        else:
            content.method = 0  # longer than announced: RabbitMQ never routes it
            return True
        if content.remaining == 0:
            self._complete(is_server, content, now_ns)
            content.method = 0
            content.payload = b""
            if self._interleaved:
                self._interleaved.pop((is_server, number), None)
        return True

    @cython.cfunc
    def _complete(self, is_server: cython.bint, content: ContentUnderWay, now_ns: cython.ulonglong) -> object:
        counts = self._counts
        channel = self._channels.of(is_server, content.number)
        if not is_server:
            counts.published_bytes.observe(content.size)
            self._note_publishes(content.number, 1, now_ns)
        elif content.method == _RETURN:
            counts._values[_RETURNED] += 1
        else:
            counts._values[_DELIVERED] += 1
            counts._values[_REDELIVERED] += content.is_redelivered
            counts._values[_AUTO_ACKED] += content.is_auto_acked
            counts.delivered_bytes.observe(content.size)
            if not content.is_auto_acked:
                if channel is None:
                    channel = self._channels.new(content.number)
                channel.delivered(content.tag, now_ns)
        return None

    # --- methods

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _take_from_client(
        self, p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t, now_ns: cython.ulonglong
    ) -> cython.bint:
        """Take a method of the client; return `False` if it cannot be read."""
        method: cython.int = _basic_method(p, at, end)
        number: cython.int = short_at(p, at + 1)
        tag: cython.ulonglong
        flags: cython.int
        content = self._begin(False, number, method if method == _PUBLISH else 0)
        if method == _PUBLISH and content is not None:
            content.payload = bytes(p[at + 7 : end - 1])
            return True
        if method not in (_ACK, _NACK, _REJECT):
            return self._take_rare(False, number, bytes(p[at:end]), now_ns)
        if end - at < 8 + 4 + 9:
            return False
        channel = self._channels.of(False, number)
        if channel is None or channel.is_unread:
            return True
        tag = long_long_at(p, at + 11)
        flags = p[at + 19]
        channel.settle(tag, flags & 1 != 0 and method != _REJECT, _settled_as(method, flags), now_ns)
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _take_from_server(
        self, p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t, now_ns: cython.ulonglong
    ) -> cython.bint:
        """Take a method of the server; return `False` if it cannot be read."""
        method: cython.int = _basic_method(p, at, end)
        number: cython.int = short_at(p, at + 1)
        if method == _DELIVER:
            return self._begin_delivery(number, p, at, end)
        content = self._begin(True, number, method if method == _RETURN else 0)
        if method == _RETURN and content is not None:
            content.payload = bytes(p[at + 7 : end - 1])
            return True
        if method not in (_ACK, _NACK):
            return self._take_rare(True, number, bytes(p[at:end]), now_ns)
        if end - at < 8 + 4 + 9:
            return False
        channel = self._channels.of(True, number)
        if channel is not None:
            channel.confirm(long_long_at(p, at + 11), p[at + 19] & 1 != 0, method == _NACK, now_ns)
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _begin_delivery(
        self, number: cython.int, p: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.bint:
        tag_end: cython.Py_ssize_t
        if end - at < 8 + 5:
            return False
        tag_end = at + 12 + p[at + 11]
        if end - tag_end < 8 + 1 + 1:
            return False
        content = self._begin(True, number, _DELIVER)
        assert content is not None
        content.payload = bytes(p[at + 7 : end - 1])
        content.tag = long_long_at(p, tag_end)
        content.is_redelivered = p[tag_end + 8] & 1 != 0
        channel = self._channels.of(True, number)
        if channel is not None and channel._has_auto_acks:
            content.is_auto_acked = channel.is_auto_acked(p, at + 12, tag_end - at - 12)
        return True

    def _lose(self) -> None:
        """Stop counting the connection, since its next frame cannot be read."""
        self.is_lost = True
        self.close()

    def close(self) -> None:
        """Forget everything open, since the connection has ended."""
        self._channels.close()

    def _take_rare(self, is_server: bool, number: int, raw: bytes, now_ns: int) -> bool:
        """Take any other method; return `False` if it cannot be read."""
        try:
            method = Frame(raw).method
        except (KeyError, ProtocolError):
            return False
        answered = self._channels.take(is_server, number, method, now_ns)
        if is_server and isinstance(method, BasicGetOk):
            content = self._begin(True, number, _GET_OK)
            assert content is not None
            content.payload = raw[7 : len(raw) - 1]
            content.tag = method.delivery_tag
            content.is_redelivered = method.redelivered
            content.is_auto_acked = isinstance(answered, BasicGet) and answered.no_ack
        return True
