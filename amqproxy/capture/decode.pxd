# What C sees of others in `decode`.

from amqproxy.capture.pcap cimport Packet
from amqproxy.capture.stream_events cimport Data
