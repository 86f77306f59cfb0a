"""The Dockerfile: how its stages are read, and what each image has to say of itself."""

import json
import re
from pathlib import Path

import pytest

from tests.packaging.dockerfile import assignments, read, substituted
from tests.packaging.image_run import context, is_sent

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "Dockerfile"

SMALL = """
# a comment
ARG BASE=debian:12
FROM ${BASE} AS first
RUN a \\
    # in between
    && b
ENV X=1 Y="two words" PATH=/x:$PATH
FROM first AS second
USER 1:2
HEALTHCHECK --interval=1s --timeout=2s CMD ["check", "it"]
ENTRYPOINT ["run"]
CMD ["it", "all"]
"""


def test_stages_are_read(tmp_path: Path) -> None:
    path = tmp_path / "Dockerfile"
    path.write_text(SMALL)
    small = read(path)
    assert small.arguments == {"BASE": "debian:12"}
    first, second = small.stages.values()
    assert (first.base, second.base) == ("debian:12", "first")
    assert [" ".join(value.split()) for name, value in first.steps if name == "RUN"] == ["a && b"]
    assert assignments(first.last("ENV"), {"PATH": "/bin"}) == {"X": "1", "Y": "two words", "PATH": "/x:/bin"}
    assert second.health_check == ["check", "it"]
    assert second.words("ENTRYPOINT") + second.words("CMD") == ["run", "it", "all"]
    assert second.last("USER") == "1:2"
    assert first.last("USER") == ""


@pytest.mark.parametrize("text", ["FROM x\n", "FROM x AS a\nFROM y AS a\n"])
def test_a_stage_has_a_name_of_its_own(tmp_path: Path, text: str) -> None:
    path = tmp_path / "Dockerfile"
    path.write_text(text)
    with pytest.raises(ValueError, match="a name of its own"):
        read(path)


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("amqproxy/cli/run.py", True),
        ("README.md", True),
        ("docs/README.md", False),
        ("amqproxy/a.so", False),
        ("amqproxy/__pycache__/a.pyc", False),
        ("helm/spark-entrypoint.sh", True),
        ("helm/amqproxy/values.yaml", False),
    ],
)
def test_what_a_build_sees(path: str, sent: bool) -> None:
    patterns = ["*", "!amqproxy", "!README.md", "!helm/spark-entrypoint.sh", "**/__pycache__", "**/*.so"]
    assert is_sent(Path(path), patterns) == sent


def test_a_build_sees_what_a_wheel_is_built_from() -> None:
    seen = {str(path) for path in context()}
    assert {"pyproject.toml", "hatch_build.py", "packaging/sbom.py", "dashboard/ui/package-lock.json"} <= seen
    assert not [path for path in seen if path.startswith(("tests/", "bench/", "docs/", ".git"))]


@pytest.mark.parametrize("name", ["proxy", "pipeline"])
def test_an_image_says_what_it_is_and_runs_as_no_root(name: str) -> None:
    dockerfile = read(DOCKERFILE)
    stage = dockerfile.stages[name]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", stage.last("USER"))
    labels = {name.removeprefix("org.opencontainers.image."): value for name, value in stage.labels.items()}
    assert set(labels) == {"title", "description", "licenses", "source", "version", "revision", "base.name"}
    assert {value for step, value in stage.steps if step == "ARG"} == {"PYTHON", "VERSION", "REVISION"}
    assert stage.words("ENTRYPOINT")
    assert stage.words("CMD")


def test_the_proxy_has_a_health_check_and_no_state_of_its_own() -> None:
    stage = read(DOCKERFILE).stages["proxy"]
    assert "/healthz" in stage.health_check[-1]
    assert not [value for step, value in stage.steps if step in ("RUN", "VOLUME")], "the root file system is read-only"


def test_a_release_gives_the_arguments_that_the_file_has() -> None:
    workflow = (ROOT / ".github/workflows/release.yml").read_text()
    assert {name for name in read(DOCKERFILE).arguments if f"{name}=" in workflow} == {"PYTHON", "VERSION", "REVISION"}


def test_substitution_leaves_what_is_not_known() -> None:
    assert substituted("$A ${B} $C", {"A": "1", "B": json.dumps(2)}) == "1 2 $C"
