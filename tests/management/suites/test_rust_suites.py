"""The results in the output of Rust's test harness."""

from __future__ import annotations

from tests.management.suites.rust_suites import results

OUTPUT = """
running 3 tests
test a::passes ... ok
test a::fails ... FAILED
test a::left_out ... ignored

failures:

---- a::fails stdout ----
assertion failed: x
  at y

failures:
    a::fails

test result: FAILED. 1 passed; 1 failed; 1 ignored
"""


def test_results_have_the_texts_of_failures() -> None:
    assert results(OUTPUT) == {"a::passes": "pass", "a::fails": "assertion failed: x\n  at y", "a::left_out": "skip"}
