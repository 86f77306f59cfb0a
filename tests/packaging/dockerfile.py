"""The Dockerfile as stages of instructions, so that what is tried is what is written there."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

from dockerfile_parse import DockerfileParser

FROM = re.compile(r"(?P<base>\S+)(?:\s+AS\s+(?P<name>\S+))?", re.IGNORECASE)
HEALTHCHECK = re.compile(r"(?P<options>(?:--\S+\s+)*)CMD\s+(?P<command>.*)", re.DOTALL)


@dataclass
class Stage:
    """`base` is a stage's name or an image; `steps` are its instructions in their order, with what follows them."""

    name: str
    base: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def last(self, instruction: str) -> str:
        """What follows the last of these instructions, which is the one that counts; empty if there is none."""
        return next((value for name, value in reversed(self.steps) if name == instruction), "")

    def words(self, instruction: str) -> list[str]:
        """Those of an ENTRYPOINT or CMD, which have to be in JSON: a shell would not pass signals on."""
        return json.loads(self.last(instruction) or "[]")  # type: ignore[no-any-return]

    @property
    def labels(self) -> dict[str, str]:
        return {
            name: value for step, text in self.steps if step == "LABEL" for name, value in assignments(text, {}).items()
        }

    @property
    def health_check(self) -> list[str]:
        """The words of its command."""
        found = HEALTHCHECK.fullmatch(self.last("HEALTHCHECK"))
        return json.loads(found["command"]) if found else []


@dataclass(frozen=True)
class Dockerfile:
    """`arguments` are those before the first stage, with their defaults."""

    arguments: Mapping[str, str]
    stages: Mapping[str, Stage]


def read(path: Path) -> Dockerfile:
    """What the file says. A second stage of a name, or one without a name, is a ValueError."""
    arguments: dict[str, str] = {}
    stages: dict[str, Stage] = {}
    stage = None
    with path.open("rb") as file:
        for each in DockerfileParser(fileobj=_Readable(file.read())).structure:
            instruction, value = each["instruction"].upper(), each["value"]
            if instruction == "FROM":
                found = FROM.fullmatch(substituted(value, arguments))
                if found is None or found["name"] is None or found["name"] in stages:
                    raise ValueError(f"FROM {value}: a stage has a name of its own")
                stage = stages[found["name"]] = Stage(found["name"], found["base"])
            elif stage is not None and instruction != "COMMENT":
                stage.steps.append((instruction, value))
            elif instruction == "ARG":
                arguments |= assignments(value, arguments)
    return Dockerfile(arguments, stages)


class _Readable:
    """What the parser takes for a file: it writes nothing, and begins to read anew each time."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def seek(self, _: int) -> None:
        pass

    def readlines(self) -> list[bytes]:
        return self._content.splitlines(keepends=True)

    def read(self) -> bytes:
        return self._content


def assignments(text: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Those of an ENV, ARG or LABEL; an ARG without a default has the one of `environment`."""
    pairs = (word.partition("=") for word in shlex.split(text))
    return {
        name: substituted(value, environment) if equals else environment.get(name, "") for name, equals, value in pairs
    }


def substituted(text: str, environment: Mapping[str, str]) -> str:
    """The text with `$NAME` and `${NAME}` replaced."""
    return Template(text).safe_substitute(environment)
