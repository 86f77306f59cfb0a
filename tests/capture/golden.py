"""The records that each capture of `captures/` must decode to. `python -m tests.capture.golden` writes them anew."""

from __future__ import annotations

import sys
from pathlib import Path

from amqproxy.capture.decode import read_records

FOLDER = Path(__file__).parents[2] / "captures"


def captures() -> list[Path]:
    return sorted(path for path in FOLDER.iterdir() if ".pcap" in path.name)


def records_path(capture: Path) -> Path:
    return FOLDER / (capture.name.partition(".pcap")[0] + ".jsonl")


def decoded(capture: Path) -> list[str]:
    return [record.to_json().decode() for record in read_records(capture)]


if __name__ == "__main__":
    for each in captures():
        text = "".join(f"{line}\n" for line in decoded(each))
        if not records_path(each).is_file() or records_path(each).read_text() != text:
            records_path(each).write_text(text)
            sys.stdout.write(f"{records_path(each).name}: look at what changed\n")
