"""The shapes that `make lint` counts in docstrings and comments."""

from __future__ import annotations

import pytest

from tests.prose import findings_of, shapes_of


@pytest.mark.parametrize(
    ("docstring", "shapes"),
    [
        ("Return the frames of a channel.", []),
        ("Whether the assembly has been received completely.", []),
        ("Limit of the write buffer, in bytes.", []),
        ("Return the total; `None` if there is no such metric.", []),
        ("What a channel needs whose legs may differ.", ["clause"]),
        ("The same of a set.", ["clause"]),
        ("Let go on what the client has sent.", ["helping verb"]),
        ("Has all of it come?", ["helping verb", "question"]),
        ("Process a frame that is no method.", ["phrase"]),
        ("Keep so many bytes at most.", ["phrase"]),
        ("Types of the wire.\n\nA long file, since they call each other.", ["apology"]),
        ("Types of the wire.\n\nReading goes on\nbehind an error.", ["phrase"]),
    ],
)
def test_shapes_of_a_docstring(docstring: str, shapes: list[str]) -> None:
    assert shapes_of(docstring) == shapes


def test_texts_below_assignments_and_comments_count() -> None:
    source = 'LIMIT = 3\n"""How many there may be."""\n\nx = 1  # the rest goes on\n'
    assert [(line, shape) for line, shape, _ in findings_of(source)] == [(2, "clause"), (4, "phrase")]
