"""What is missing is a skip on a laptop, and a failure where CI=true promises that all is there."""

import pytest

from tests.real.require import require, require_module


def test_what_is_there() -> None:
    assert require("sh") == require("sh", package="dash")
    assert require_module("json").loads("1") == 1


@pytest.mark.parametrize(("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)])
def test_what_is_missing(ci: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="apt-get install some-package"):
        require("no-such-program", package="some-package")
    with pytest.raises(outcome, match="pip install no_such_module"):
        require_module("no_such_module")
