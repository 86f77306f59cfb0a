"""The inputs that fuzzing found worth keeping."""

from pathlib import Path

import pytest

from tests.fuzz.target import check, cut

CORPUS = Path(__file__).with_name("corpus.txt").read_text().split()


@pytest.mark.parametrize("part", range(8))
def test_corpus(part: int) -> None:
    for entry in CORPUS[part::8]:
        check(bytes.fromhex(entry))


def test_it_is_not_empty() -> None:
    assert len(CORPUS) > 50


@pytest.mark.parametrize("seed", [0, 1, 7, 255])
def test_pieces_are_the_whole(seed: int) -> None:
    assert b"".join(cut(bytes(range(256)), seed)) == bytes(range(256))
