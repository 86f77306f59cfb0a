"""Comments on rows."""

from __future__ import annotations

import pytest

from amqproxy.dashboard.marks import MAX_MARKS, MAX_TEXT, Marks, TooManyMarks

pytestmark = pytest.mark.once


def test_rows_have_the_comments_they_were_given() -> None:
    marks = Marks()
    marks.put(3, "odd")
    marks.put(5, "")
    marks.put(3, "odder")
    assert marks.of(range(10)) == ("odder", "marked")
    marks.remove(3)
    marks.remove(4)
    assert marks.of(range(10)) == ("marked",)
    assert marks.of([1]) == ()


def test_no_comment_passes_for_one_of_a_recording() -> None:
    marks = Marks()
    marks.put(1, "amqproxy: refused by " + "x" * MAX_TEXT)
    [text] = marks.of([1])
    assert text.startswith("refused by")
    assert len(text) == MAX_TEXT


def test_so_many_rows_are_marked() -> None:
    marks = Marks()
    for seq in range(MAX_MARKS):
        marks.put(seq, "x")
    marks.put(0, "y")
    with pytest.raises(TooManyMarks):
        marks.put(MAX_MARKS, "x")
