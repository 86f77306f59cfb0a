"""The two that a connection joins, in every version of AMQP."""

from __future__ import annotations

from enum import StrEnum


class Peer(StrEnum):
    """One of the two that a connection joins; each frame has one of them as its sender."""

    CLIENT = "client"
    SERVER = "server"

    other: Peer


CLIENT, SERVER = Peer.CLIENT, Peer.SERVER
CLIENT.other, SERVER.other = SERVER, CLIENT  # as attributes, since they are asked for several times a message
