"""The report: complete, self-contained, and no text in it is anything but text."""

from __future__ import annotations

import math
import re
import subprocess
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from amqproxy.amqp091.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    ChannelClose,
    ConnectionClose,
)
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import Decoded
from amqproxy.capture.selection.selection import Selection
from amqproxy.export.html_report import OUTCOMES, _place, html_report
from amqproxy.views.measurements import SHORT_INTERVALS, Measurements
from amqproxy.views.statistics import MessageTotals
from amqproxy.views.statistics_collector import Collector
from tests.capture import golden
from tests.export.dialogue import Dialogue
from tests.real.require import require

ELEMENTS = {
    *("html", "head", "meta", "title", "style", "body", "header", "main", "section"),
    *("h1", "h2", "h3", "p", "div", "span", "b", "em", "i", "a", "code", "ul", "li"),
    *("figure", "figcaption", "svg", "path", "rect", "text"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
HOSTILE = (
    "<img src=x onerror=\"document.title='owned'\">'</td></script><script>document.title='owned'</script>&lt;\u202e"
)


class Elements(HTMLParser):
    """The elements of a page, and their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {(name, value or "") for name, value in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def report(decoded: Iterable[Decoded], name: str = "a.pcapng", selection: str = "") -> str:
    found = Collector(Selection(), has_findings=True)
    found.feed(decoded)
    return "".join(html_report(found, [name], selection))


def hostile() -> str:
    dialogue = Dialogue(HOSTILE, HOSTILE, product=HOSTILE)
    dialogue.client(BasicConsume(queue=HOSTILE, consumer_tag=HOSTILE)).server(BasicConsumeOk(consumer_tag=HOSTILE))
    dialogue.publish(HOSTILE, HOSTILE, HOSTILE.encode())
    dialogue.content(BasicDeliver(consumer_tag=HOSTILE, delivery_tag=1, exchange=HOSTILE, routing_key=HOSTILE))
    dialogue.server(ChannelClose(reply_code=404, reply_text=HOSTILE))
    dialogue.server(ConnectionClose(reply_code=320, reply_text=HOSTILE), channel=0)
    return report(dialogue.end(HOSTILE), HOSTILE, HOSTILE)


def assert_harmless(page: str) -> None:
    elements = Elements(page)
    assert elements.names <= ELEMENTS
    for name, value in elements.attributes:
        assert not name.startswith("on")
        assert name not in ("src", "srcset", "action", "formaction", "data", "xlink:href")
        assert name != "href" or re.fullmatch(r"#c\d+", value)
    assert "url(" not in page
    assert "@import" not in page
    assert ("http-equiv", "Content-Security-Policy") in elements.attributes


def test_the_report_needs_nothing_else_and_runs_nothing() -> None:
    for path in golden.captures():
        assert_harmless(report(read_decoded(path), path.name))


def test_a_hostile_text_is_only_a_text() -> None:
    page = hostile()
    assert_harmless(page)
    shown = HOSTILE.replace("\u202e", "\\u202e")
    assert Elements(page).text.count(shown) > 8
    assert "\u202e" not in page


def test_all_sections_are_there() -> None:
    text = Elements(report(read_decoded(golden.FOLDER / "confirms.pcapng"))).text
    for each in (
        *("Over time", "Publish to confirm: 3", "Exchanges", "Users", "guest", "publishes nacked", "Findings"),
        *("nacked-publish", "server frame 8", "127.0.0.1:54578-127.0.0.1:40257", "closed by the client"),
    ):
        assert each in text
    assert "There is no AMQP 0-9-1 in it." in report([])


def test_every_outcome_has_words() -> None:
    others = {"published", "delivered", "got", "redelivered", "requeued", "unknown_tags"}
    assert set(OUTCOMES) == {*MessageTotals.__struct_fields__} - others


@pytest.mark.parametrize("seconds", [0.0, 1e-7, 1e-6, 3.3e-4, 0.01, 0.013, 7.0, 1e5, 3e6])
def test_a_mark_stands_where_its_value_is(seconds: float) -> None:
    measured = Measurements()
    for value in (1e-4, seconds, 2.0):
        measured.observe(value)
    intervals = measured.intervals(SHORT_INTERVALS)
    place = _place(intervals[0][0], seconds)
    assert 0 <= place <= len(intervals)
    bound, count = intervals[max(math.ceil(place) - 1, 0)]
    assert count
    assert bound is None or bound >= seconds


@pytest.mark.real
def test_chromium_shows_the_report_and_runs_nothing_in_it(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(hostile())
    command = [
        require("chromium-headless-shell"),
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path}/profile",
    ]
    page = subprocess.run(
        [*command, "--virtual-time-budget=2000", "--dump-dom", f"file://{tmp_path}/a.html"],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout
    assert "<title>owned" not in page
    assert "<title>AMQP in &lt;img" in page
    assert "<script" not in page
    assert page.count("<svg") >= 4
