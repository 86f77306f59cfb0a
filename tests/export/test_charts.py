"""Charts are well-formed, stay within their frame, and show every value."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.export.charts import HEIGHT, WIDTH, Bar, Mark, Series, histogram, time_chart
from tests.example_count import example_count


def drawn(figure: str) -> ElementTree.Element:
    """The SVG of a figure, in which nothing is outside."""
    svg = ElementTree.fromstring(figure).find("svg")
    assert svg is not None
    for element in svg.iter():
        for name, most in (("x", WIDTH), ("y", HEIGHT)):
            if name in element.attrib:
                assert -1 <= float(element.attrib[name]) <= most
        for letter, number in re.findall(r"([MVH])(-?[0-9.]+)", element.get("d", "")):
            assert -1 <= float(number) <= (HEIGHT if letter == "V" else WIDTH)
    return svg


@settings(max_examples=example_count(60), deadline=None)
@given(
    st.one_of(st.integers(0, 2**61), st.integers(-(2**70), 2**100)),
    st.integers(1, 10**13),
    st.lists(st.integers(0, 10**12), min_size=1, max_size=30),
)
def test_a_series_is_drawn_whatever_its_times_and_values(begin: int, width: int, values: list[int]) -> None:
    starts = [begin + place * width for place in range(len(values))]
    figure = time_chart("Messages", starts, width, [Series("a", 0, values), Series("none", 1, [0] * len(values))], "")
    if not any(values):
        assert "none" in figure
        assert "<svg" not in figure
        return
    svg = drawn(figure)
    lines = [each for each in svg.iter("path") if (each.get("class") or "").startswith("line")]
    assert [each.find("title").text for each in lines] == ["a"]  # type: ignore[union-attr]
    assert lines[0].get("d", "").count("H") == len(values)
    assert len(list(svg.iter("text"))) < 30


@pytest.mark.parametrize("count", [1, 2, 9, 90])
def test_a_histogram_has_a_bar_each_and_labels_that_fit(count: int) -> None:
    bars = [Bar(f"b{place}", place + 1) for place in range(count)]
    svg = drawn(histogram("Sizes", bars, [Mark(count / 2, "median 5")]))
    rectangles = list(svg.iter("rect"))
    assert [each.find("title").text for each in rectangles] == [f"b{place}: {place + 1}" for place in range(count)]  # type: ignore[union-attr]
    assert sum(each.get("class") == "mid" for each in svg.iter("text")) <= 10
    heights = [float(each.get("height", "")) for each in rectangles]
    assert heights == sorted(heights)


def test_nothing_is_said_to_be_nothing() -> None:
    for figure in (histogram("Sizes", []), time_chart("Messages", [], 1, [], "")):
        assert "none" in figure
        ElementTree.fromstring(figure)
