"""Known faults of Wireshark's dissectors of AMQP, and of that of 0-9-1 (as of 4.0.17, `packet-amqp.c`)."""

from __future__ import annotations

NO_NAME = "tshark does not know exchange.unbind-ok and connection.update-secret, and shows none of their fields"
UNKNOWN_TYPES = "tshark does not know the types U and L of tables, and loses the rest of the table"
FRAME_END = "tshark checks neither the end of a frame nor what a table holds, and reads on"
OTHER_VERSION = "tshark reads AMQP 0-8, and what answers other versions, as 0-9-1"
HEADER_VERSION = "tshark shows no protocol header of a version that it does not know"
CLAMPED = "tshark reads no more than 1 MiB of a frame"
TINY_SEGMENTS = "tshark finds out the version from the first segment, and so nothing where that is tiny"
HOLE = "tshark needs the beginning of a connection, and waits at a hole or reads on at a wrong place"

CLAMPED_BYTES = 1024 * 1024
UNNAMED = frozenset({(40, 51), (10, 70), (10, 71)})
UNKNOWN_LETTERS = frozenset("UL")

ONLY_THEIRS = frozenset(
    {"ticket", "capabilities", "insist", "out_of_band", "channel_id", "known_hosts", "cluster_id", "publish_number"}
)
"""Method fields that only tshark shows: reserved ones, and its own count of publishes."""
THEIR_NAMES = {"no_wait": ("nowait",), "arguments": ("arguments", "filter")}
"""tshark's names of method fields that have other names here; it calls the arguments of basic.consume a filter."""
