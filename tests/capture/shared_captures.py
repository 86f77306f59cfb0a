"""Captures of real traffic that are lent for testing and are no part of the project.

The folder is named by AMQPROXY_SHARED_CAPTURES, and is by default beside the checkout.
"""

import csv
import os
from collections.abc import Container
from pathlib import Path

FOLDER = Path(os.environ.get("AMQPROXY_SHARED_CAPTURES") or Path(__file__).parents[2].with_name("shared") / "captures")


def files(without: Container[str] = ()) -> list[Path]:
    """Every capture of which there is an expected view, without some by their names."""
    found = [path for path in sorted(FOLDER.glob("*.pcap*")) if expectation(path).is_file()]
    return [path for path in found if path.stem not in without]


def expectation(path: Path) -> Path:
    return path.parent / "expected" / f"{path.stem}.tsv"


def rows(path: Path) -> list[dict[str, str]]:
    """What tshark makes of a capture, one row for each protocol data unit."""
    with expectation(path).open() as lines:
        return list(csv.DictReader(lines, delimiter="\t"))
