"""Fixtures for tests of tokens and of logins: a local service, and an issuer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tokens.issuer import Issuer
from tests.tokens.web_service import WebService, web_service


@pytest.fixture
def service() -> Iterator[WebService]:
    with web_service() as started:
        yield started


@pytest.fixture(scope="session")
def issuer() -> Issuer:
    """An issuer of tokens; its keys take long to make."""
    return Issuer()
