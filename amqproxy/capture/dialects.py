"""The protocols that captures are decoded as: masking of items without frames, dry runs, and whole commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from amqproxy.amqp010.protocol_header import NAME as AMQP010
from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.protocol_header import NAME as AMQP091
from amqproxy.capture.amqp010.assembly_gatherer import AssemblyGatherer
from amqproxy.capture.amqp010.dry_run import Amqp010DryRun
from amqproxy.capture.amqp010.secrets import masked_rubbish as amqp010_masked_rubbish
from amqproxy.capture.amqp091.command_gatherer import CommandGatherer
from amqproxy.capture.amqp091.dry_run import Amqp091DryRun
from amqproxy.capture.amqp091.secrets import masked_rubbish as amqp091_masked_rubbish
from amqproxy.capture.connection_dry_run import ConnectionDryRun
from amqproxy.capture.decoded import Decoded, DecodedFrames, DecodedProtocolHeader, SkippedBytes
from amqproxy.rules.context import Client


class Gatherer(Protocol):
    """Whole commands of one connection, as rules see them, and its client as far as they show it."""

    client: Client

    def commands(self, decoded: DecodedFrames) -> Iterator[Command]:
        """Yield the commands that these frames complete, except heartbeats; the client is up to date at each."""


DRY_RUNS: dict[str, type[ConnectionDryRun]] = {AMQP091: Amqp091DryRun, AMQP010: Amqp010DryRun}

GATHERERS: dict[str, Callable[[Client], Gatherer]] = {AMQP091: CommandGatherer, AMQP010: AssemblyGatherer}


def protocol_of(decoded: Decoded) -> str:
    """Return the protocol to name in a recording of an item's connection: 0-9-1 unless it is known to be 0-10."""
    return AMQP010 if getattr(decoded, "protocol", None) == AMQP010 else AMQP091


def masked_rubbish(decoded: DecodedProtocolHeader | SkippedBytes) -> bytes:
    """Return the bytes of an item, which are not whole frames, with all that could be a secret masked."""
    mask = amqp010_masked_rubbish if decoded.protocol == AMQP010 else amqp091_masked_rubbish
    return mask(decoded.data)
