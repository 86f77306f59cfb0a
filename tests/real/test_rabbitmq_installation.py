"""Later versions of RabbitMQ are unpacked beside that of the system, which is never touched."""

import subprocess

import pytest

from tests.real.rabbitmq_installation import MOVED, SUITES, UNPACK, installation

pytestmark = [pytest.mark.real, pytest.mark.once]


@pytest.mark.parametrize("minor", SUITES)
def test_the_version_met_is_the_one_wanted(minor: str) -> None:
    found = installation(minor)
    assert found.version.startswith(f"{minor}.")
    assert found.root is not None
    assert found.script("rabbitmqctl").startswith(str(found.root))
    assert found.epmd.startswith(str(found.root))


def test_a_version_that_the_suite_does_not_have_is_told_apart() -> None:
    done = subprocess.run([UNPACK, "trixie", "3.99"], capture_output=True, text=True, check=False)
    assert done.returncode == MOVED, done.stderr
    assert "RabbitMQ 4.0" in done.stderr
