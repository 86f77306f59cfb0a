# What C sees of others in `reassembly`.

from amqproxy.capture.packets cimport TCPSegment
from amqproxy.capture.stream_events cimport Data
