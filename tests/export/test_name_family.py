"""Names that are alike are one once there are several; parts that they share stay."""

from __future__ import annotations

from amqproxy.export.name_family import NameFamily
from amqproxy.rules.matching.generated_names import Generated, shape_of


class Count:
    def __init__(self) -> None:
        self.count = 0

    def add(self, other: Count) -> None:
        self.count += other.count


def seen(*names: tuple[str, str]) -> dict[tuple[object, ...], int]:
    family = NameFamily(Count)
    for name in names:
        exact, loose = (tuple(shape_of(each, certain=certain) for each in name) for certain in (True, False))
        family.find(exact, loose).count += 1
    return {shapes: count.count for shapes, count in family.items()}


def test_two_names_are_kept_apart_and_three_are_one() -> None:
    assert seen(("e1", "k1"), ("e1", "k2"), ("e1", "k2")) == {(("e1",), ("k1",)): 1, (("e1",), ("k2",)): 2}
    shape = ("k", Generated.NUMBER)
    assert seen(("e1", "k1"), ("e1", "k2"), ("e1", "k2"), ("e1", "k3"), ("e1", "k3")) == {(("e1",), shape): 5}


def test_what_differs_later_becomes_a_shape_later() -> None:
    names = [("e1", "k1"), ("e1", "k2"), ("e1", "k3"), ("e2", "k3")]
    assert seen(*names) == {(("e", Generated.NUMBER), ("k", Generated.NUMBER)): 4}
