"""Packages with addons that seem to be installed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def installed(site: Path, package: str, entries: Mapping[str, Mapping[str, str]]) -> None:
    """Write the metadata of an installed package."""
    directory = site / f"{package.replace('-', '_')}-1.0.dist-info"
    directory.mkdir(parents=True)
    (directory / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    groups = [
        "\n".join([f"[{group}]", *[f"{name} = {value}" for name, value in values.items()]])
        for group, values in entries.items()
    ]
    (directory / "entry_points.txt").write_text("\n\n".join(groups))
