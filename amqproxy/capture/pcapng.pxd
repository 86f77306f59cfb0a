# What C sees of others in `pcapng`.

from amqproxy.capture.pcap cimport Packet
