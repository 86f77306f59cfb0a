from amqproxy.proxy.memory_budget import MemoryBudget, MemoryShare


def test_no_owner_keeps_more_than_is_left_for_the_others() -> None:
    memory = MemoryBudget(1000)
    first, second, third = MemoryShare(memory), MemoryShare(memory), MemoryShare(memory)
    assert first.has_room(500)
    assert not first.has_room(501)
    first.add(500)
    assert not first.has_room(1)
    assert second.has_room(250)
    second.add(250)
    assert third.has_room(125)
    assert (memory.used, memory.free) == (750, 250)


def test_an_owner_has_a_separate_bound() -> None:
    memory = MemoryBudget(1000, 100)
    share = MemoryShare(memory)
    assert share.has_room(100)
    assert not share.has_room(101)


def test_who_keeps_too_much_is_over_until_enough_is_gone() -> None:
    memory = MemoryBudget(1000)
    share = MemoryShare(memory)
    share.add(700)
    assert share.is_over
    share.remove(200)
    assert not share.is_over
    share.clear()
    assert (share.used, memory.used) == (0, 0)


def test_who_keeps_nothing_is_never_over() -> None:
    memory = MemoryBudget(1000)
    MemoryShare(memory).add(5000)
    assert memory.free == 0
    assert not MemoryShare(memory).is_over
