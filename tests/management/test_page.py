"""The docs page of the management API."""

from __future__ import annotations

import pytest

from tests.management.page import PAGE, TABLES, written

pytestmark = pytest.mark.once


def test_its_tables_are_those_of_the_code() -> None:
    page = PAGE.read_text()
    assert all(f"<!-- {name} -->" in page for name in TABLES)
    assert page == written(page), "run: python -m tests.management.page"
