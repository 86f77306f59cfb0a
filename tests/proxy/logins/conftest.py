"""Fixtures of logins: a local service, an issuer, and counts."""

from __future__ import annotations

import pytest

from tests.proxy.logins.attempts import Counts
from tests.tokens.fixtures import issuer, service

__all__ = ["counts", "issuer", "service"]


@pytest.fixture
def counts() -> Counts:
    return Counts()
