"""The records that each capture of `captures/` must decode to, of frames and of messages.

`python -m tests.capture.golden` writes them anew.
"""

from __future__ import annotations

import sys
from pathlib import Path

from amqproxy.capture.decode import read_decoded
from amqproxy.capture.observed import observed
from amqproxy.taps.observer import ObserverSettings
from tests.capture.records import read_records

FOLDER = Path(__file__).parents[2] / "captures"


def captures() -> list[Path]:
    return sorted(path for path in FOLDER.iterdir() if ".pcap" in path.name)


def records_path(capture: Path) -> Path:
    return FOLDER / (capture.name.partition(".pcap")[0] + ".jsonl")


def messages_path(capture: Path) -> Path:
    return FOLDER / (capture.name.partition(".pcap")[0] + ".messages.jsonl")


def messages(capture: Path) -> list[str]:
    return [record.to_json().decode() for record in observed(read_decoded(capture), ObserverSettings(body=64))]


def decoded(capture: Path) -> list[str]:
    return [record.to_json().decode() for record in read_records(capture)]


if __name__ == "__main__":
    for each in captures():
        for path, lines in ((records_path(each), decoded(each)), (messages_path(each), messages(each))):
            text = "".join(f"{line}\n" for line in lines)
            if not path.is_file() or path.read_text() != text:
                path.write_text(text)
                sys.stdout.write(f"{path.name}: look at what changed\n")
