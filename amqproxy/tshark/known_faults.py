"""Known faults of Wireshark's dissectors of AMQP 0-9-1 and 0-10 (as of 4.0.17, `packet-amqp.c`)."""

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

# AMQP 0-10.

TX = "tshark calls tx.commit and tx.rollback tx.select"
BINDING_KEY = "tshark shows the length of a binding key in place of the key"
SUBSCRIBE_ARGUMENTS = "tshark reads the size of message.subscribe's arguments as their number"
XID = "tshark does not expect the size and the code that Qpid gives an xid, and loses it and what is behind it"
VOID = "tshark takes void for a type with a value, and loses the rest of the map"
GIVEN_UP = "tshark finds malformed what is not, and reads nothing more of the frame"
RESULTS = "tshark does not know dtx.get-timeout-result, nor the xids in a dtx.recover-result"

OF_FIELDS = {
    **{(name, "binding_key"): BINDING_KEY for name in ("exchange.bind", "exchange.unbind", "exchange.bound")},
    ("message.subscribe", "arguments"): SUBSCRIBE_ARGUMENTS,
}
"""Faults that concern one field, by method and field name."""

OF_STRUCTS = {"dtx.get-timeout-result": RESULTS, "dtx.recover-result": RESULTS}

NOT_SHOWN = ("unimplemented type", "composite")
"""tshark's texts for types whose values it does not show."""

AMQP010_NAMES = {
    "class": "class_code",
    "credit_unit": "unit",
    "delivery_priority": "priority",
    "exchange": "name",
    "frame_max": "max_frame_size",
    "known_hosts_bytes": "known_hosts",
    "method": "command_code",
    "reject_code": "code",
    "struct32": "value",
    "xa_status": "status",
}
"""Field names by tshark's names, for structs that have no field of tshark's name."""
