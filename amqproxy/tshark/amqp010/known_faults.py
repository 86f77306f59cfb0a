"""Known faults of Wireshark's dissector of AMQP 0-10 (as of 4.0.17, `packet-amqp.c`)."""

from __future__ import annotations

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

NAMES = {
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
