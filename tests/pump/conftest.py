"""A connection for a test of what pumps are made of."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.pump.rig import Wire, pump


@pytest.fixture
def wire() -> Iterator[Wire]:
    """One whose pump has no thread."""
    made = Wire(pump())
    yield made
    made.close()
