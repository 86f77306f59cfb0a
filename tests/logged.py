"""What is logged, for tests to look at."""

from collections.abc import Iterator

import pytest
import structlog
from structlog.testing import capture_logs


@pytest.fixture(autouse=True)
def log() -> Iterator[list[structlog.typing.EventDict]]:
    """What is logged, as it comes."""
    with capture_logs() as events:
        yield events
