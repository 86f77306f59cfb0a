"""Packet comments about the effects of rules."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqproxy.capture.packet_comment import (
    RecordedViolation,
    added_comments,
    comment_of,
    end_of,
    ended_comment,
    lost_comment,
    note_of,
    opener_of,
    session_comment,
    tells_loss,
    violation_comment,
    violation_of,
)
from amqproxy.capture.packet_snapshot import SnapshotComment
from amqproxy.taps.note import NOTHING, Note


@pytest.mark.parametrize(
    ("note", "text"),
    [
        (Note(("no-guests", "quiet"), ("slow",), "refused", "client"),
         'amqproxy: client leg; refused by "no-guests", "quiet"; tags "slow"'),
        (Note(("a",), (), "changed", "upstream"), 'amqproxy: upstream leg; changed by "a"'),
        (Note((), ("x", "y")), 'amqproxy: tags "x", "y"'),
        (Note(("only",)), 'amqproxy: by "only"'),
        (Note((), (), "", "client"), "amqproxy: client leg"),
        (Note((), (), "held"), "amqproxy: held"),
    ],
)  # fmt: skip
def test_a_comment_reads_well_and_is_read_back(note: Note, text: str) -> None:
    assert comment_of(note) == text
    assert note_of([text]) == note


names = st.lists(st.text(st.characters(), min_size=0), max_size=3).map(tuple)
words = st.one_of(st.sampled_from(["", "client", "upstream", "refused", "by", "tags", "leg"]), st.text(st.characters()))


@given(st.builds(Note, names, names, words, words, st.just(False), st.just(())))
@example(Note(('"; tags "x', "\\"), ("\ud800\n",), 'refused by "a"', "client leg; "))
def test_any_note_is_read_back_exactly(note: Note) -> None:
    if note == NOTHING:
        return
    text = comment_of(note)
    assert text.encode().decode().isprintable()
    assert note_of([text]) == note


@pytest.mark.parametrize(
    "text",
    ["", "amqproxy: ", "amqproxy", "seen before, ask Ann", 'amqproxy: tags "a", ', 'amqproxy: by "\\q"',
     "amqproxy: client leg; ", 'amqproxy: refused; ; tags "a"', "amqproxy: connection 4, 10.0.0.1:4-10.0.0.2:5"],
)  # fmt: skip
def test_what_others_write_is_no_note(text: str) -> None:
    assert note_of([text]) is NOTHING


def test_the_comment_of_the_proxy_is_found_among_others() -> None:
    assert note_of(["see ticket 4711", 'amqproxy: tags "a"', "thanks"]) == Note((), ("a",))


def test_what_a_peer_did_wrong_is_read_back() -> None:
    text = violation_comment("client", 505, 'UNEXPECTED_FRAME - "x"', 3, 236)
    assert text == 'amqproxy: violation by the client: 505 "UNEXPECTED_FRAME - \\"x\\"" on channel 3 at byte 236'
    assert violation_of(["other", text]) == RecordedViolation(505, 'UNEXPECTED_FRAME - "x"', 3, 236)
    assert violation_of([violation_comment("server", 501, "no", None, None)]) == RecordedViolation(
        501, "no", None, None
    )
    assert violation_of(["amqproxy: violation by the client"]) is None


def test_a_session_is_introduced_with_who_opened_each_leg() -> None:
    of_client = session_comment(7, "client", "10.0.0.1:4-10.0.0.2:5", session="10.0.0.1:4-10.0.0.2:5", is_tls=True)
    assert of_client == "amqproxy: session 7, client leg 10.0.0.1:4-10.0.0.2:5, by TLS"
    of_upstream = session_comment(
        7, "upstream", "[fd::1]:6-[fd::2]:7", shown_name="a, b", session="10.0.0.1:4-10.0.0.2:5", is_tls=False
    )
    assert of_upstream == 'amqproxy: session 7 "a, b", upstream leg [fd::1]:6-[fd::2]:7, for 10.0.0.1:4-10.0.0.2:5'
    assert [opener_of([each]) for each in (of_client, of_upstream, "else")] == ["10.0.0.1:4", "[fd::1]:6", ""]


def test_what_was_lost_and_why_a_session_ended_is_read_back() -> None:
    assert lost_comment(1, 0) == "amqproxy: 1 frame before this not recorded, of unknown size"
    assert lost_comment(12, 3456) == "amqproxy: 12 frames before this not recorded, 3456 bytes"
    assert tells_loss(["else", lost_comment(1, 0)])
    assert not tells_loss(["else", ended_comment("1 frame before this not recorded, 8 bytes")])
    assert end_of([lost_comment(1, 0), ended_comment('"so", it said\n')]) == '"so", it said\n'
    assert end_of([lost_comment(1, 0)]) == ""


def test_comments_of_users_are_told_from_those_of_recordings() -> None:
    refused = Note(("no",), (), "refused", "client")
    state = SnapshotComment("state of the connection")
    assert added_comments(["why?", comment_of(refused), state, "and this"]) == ("why?", "and this")
    assert added_comments([state, "amqproxy: what is this"]) == ()
    assert Note(comments=("why?",)).uncommented is NOTHING
    assert refused._replace(comments=("why?",)).uncommented == refused
