"""What is made of recordings of real clients: access lists, and smaller captures."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec

from amqproxy.capture.decode import read_decoded
from amqproxy.export.access_suggestion import AccessCheck, SuggestedAccess, as_toml, suggested
from amqproxy.export.packets import ExportedPackets
from amqproxy.export.whole_commands import whole_commands
from tests.capture.records import read_records


def wrong_in_suggested_access(file: Path) -> list[str]:
    """What the suggested list would refuse, and its lines without which nothing else would be refused."""
    decoded = list(read_decoded(file))
    access = suggested(lambda: decoded)

    def refused(lines: SuggestedAccess) -> list[str]:
        check = AccessCheck(as_toml(lines, [file.name]), Path("suggested.toml"))
        return [f"refused: {each}" for each in check.play(decoded)]

    needless = [
        f"needless: {line.text}"
        for place, line in enumerate(access.lines)
        if not refused(msgspec.structs.replace(access, lines=access.lines[:place] + access.lines[place + 1 :]))
    ]
    return refused(access) + needless


def wrong_in_exported_capture(file: Path) -> list[str]:
    """The first records that an export of all that is in a capture does not share with it."""
    packets = ExportedPackets()
    exported = packets.begin("all") + b"".join(
        packets.write(whole_commands(packets.see(read_decoded(file)), lambda ts_ns, channel: True))
    )
    pairs = zip(read_records(file), read_records(io.BytesIO(exported)), strict=True)
    return [f"{one} is exported as {other}" for one, other in pairs if one != other][:5]
