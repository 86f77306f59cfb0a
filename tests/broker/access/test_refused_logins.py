"""Who could not log in is kept for a while, and not too many of them."""

from amqproxy.broker.access.refused_logins import RefusedLogins


def kept(most_of_address: int, most: int) -> tuple[RefusedLogins[str], list[str]]:
    cut: list[str] = []
    return RefusedLogins(cut.append, most_of_address=most_of_address, most=most), cut


def test_of_one_address_only_so_many_are_kept() -> None:
    refused, cut = kept(2, 100)
    for name in ("a1", "a2", "b1", "a3", "a4"):
        refused.add(name, name[0])
    assert cut == ["a1", "a2"]
    assert len(refused) == 3


def test_of_all_addresses_too() -> None:
    refused, cut = kept(10, 3)
    for name in "abcde":
        refused.add(name, name)
    assert cut == ["a", "b"]
    assert len(refused) == 3


def test_who_is_gone_is_forgotten() -> None:
    refused, cut = kept(1, 100)
    refused.add("a1", "a")
    refused.discard("a1")
    refused.discard("a1")
    refused.discard("nobody")
    refused.add("a2", "a")
    assert (cut, len(refused)) == ([], 1)
