"""Commands as they passed in a capture: methods with their content, assembled from the frames of both sides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from amqproxy.capture.decoded import Decoded, DecodedFrames, StreamEnded
from amqproxy.views.command_assembler import CommandAssembler
from amqproxy.views.dialects import ASSEMBLERS
from amqproxy.views.passed_command import PassedCommand


def commands_of(decoded: Iterable[Decoded], *, body: int = 0) -> Iterator[PassedCommand]:
    """Yield the commands of all connections as they become complete, with the first `body` bytes of each body.

    An incomplete command is yielded as cut when the next command of its channel begins, or nothing more can follow.
    """
    assemblers: dict[int, CommandAssembler] = {}
    for each in decoded:
        assembler = assemblers.get(each.stream)
        # There is nothing to assemble before the first frames, which name the protocol.
        protocol = each.protocol if isinstance(each, DecodedFrames) else ""
        if assembler is None or protocol not in ("", assembler.protocol):
            if assembler is not None:
                yield from assembler.cut()
            assembler = assemblers[each.stream] = ASSEMBLERS[protocol](each.stream, each.connection, body)
        yield from assembler.feed(each)
        if isinstance(each, StreamEnded):
            del assemblers[each.stream]
    for assembler in assemblers.values():
        yield from assembler.cut()
