"""The inputs that fuzzing found worth keeping."""

from pathlib import Path

import pytest

from tests.fuzz import target_0_10
from tests.fuzz.target import check, cut

CORPUS, CORPUS_0_10 = (Path(__file__).with_name(name).read_text().split() for name in ("corpus.txt", "corpus_0_10.txt"))


@pytest.mark.parametrize("part", range(8))
def test_corpus(part: int) -> None:
    for entry in CORPUS[part::8]:
        check(bytes.fromhex(entry))


@pytest.mark.parametrize("part", range(4))
def test_corpus_of_0_10(part: int) -> None:
    for entry in CORPUS_0_10[part::4]:
        target_0_10.check(bytes.fromhex(entry))


def test_it_is_not_empty() -> None:
    assert len(CORPUS) > 50
    assert len(CORPUS_0_10) > 50


@pytest.mark.parametrize("seed", [0, 1, 7, 255])
def test_pieces_are_the_whole(seed: int) -> None:
    assert b"".join(cut(bytes(range(256)), seed)) == bytes(range(256))
