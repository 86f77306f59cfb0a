"""Fixtures of logins: a local service, an issuer, and counts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.proxy.logins.attempts import Counts
from tests.proxy.logins.issuer import Issuer
from tests.proxy.logins.web_service import WebService, web_service


@pytest.fixture
def service() -> Iterator[WebService]:
    with web_service() as started:
        yield started


@pytest.fixture(scope="session")
def issuer() -> Issuer:
    """An issuer of tokens; its keys take long to make."""
    return Issuer()


@pytest.fixture
def counts() -> Counts:
    return Counts()
