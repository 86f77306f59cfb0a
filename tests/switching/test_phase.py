"""The table of phases: every way through it ends where it should."""

from __future__ import annotations

import pytest

from amqproxy.switching.phase import LEAVING, MOVING, SETTLED, TOWARDS_TARGET, TRANSITIONS, Phase, SwitchEvent

WAY = [
    (SwitchEvent.FORTH, Phase.CLIENTS_TO_TARGET),
    (SwitchEvent.CLIENTS_GONE, Phase.MESSAGES_TO_TARGET),
    (SwitchEvent.EMPTIED, Phase.AT_TARGET),
    (SwitchEvent.BACK, Phase.CLIENTS_TO_SOURCE),
    (SwitchEvent.CLIENTS_GONE, Phase.MESSAGES_TO_SOURCE),
    (SwitchEvent.EMPTIED, Phase.AT_SOURCE),
]


def test_there_and_back() -> None:
    phase = Phase.AT_SOURCE
    for event, after in WAY:
        phase = TRANSITIONS[phase][event]
        assert phase is after


def test_each_phase_is_settled_leaving_or_moving() -> None:
    assert sorted(Phase) == sorted([*SETTLED, *LEAVING, *MOVING])
    assert len(TRANSITIONS) == len(Phase)


@pytest.mark.parametrize("phase", Phase)
def test_an_operator_can_turn_each_phase_and_messages_follow_clients(phase: Phase) -> None:
    turn = SwitchEvent.BACK if phase in TOWARDS_TARGET else SwitchEvent.FORTH
    after = TRANSITIONS[phase][turn]
    assert after in LEAVING
    assert (after in TOWARDS_TARGET) != (phase in TOWARDS_TARGET)
    assert not {SwitchEvent.BACK, SwitchEvent.FORTH} - {turn} & set(TRANSITIONS[phase])


@pytest.mark.parametrize("phase", Phase)
def test_a_restart_keeps_the_direction_and_looks_for_clients_again(phase: Phase) -> None:
    after = TRANSITIONS[phase].get(SwitchEvent.RESTARTED, phase)
    assert (after in TOWARDS_TARGET) == (phase in TOWARDS_TARGET)
    assert after not in MOVING
