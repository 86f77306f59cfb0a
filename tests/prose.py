"""Count docstrings and comments that read as a private dialect; fail above the bound of their room.

usage: python tests/prose.py [-v] [ROOM …]

The shapes are: a docstring that begins with a clause or a question in place of a noun or an imperative, negated nouns
("is no method"), counts without a noun ("so many"), and apologies for a file's length. A shape is only a hint: a
sentence without one may still be vague. Bounds can only be lowered.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent

BOUNDS = {
    "amqproxy/amqp010": 0,
    "amqproxy/amqp091": 0,
    "amqproxy/app": 0,
    "amqproxy/cli": 0,
    "amqproxy/compiled": 0,
    "amqproxy/configuration": 0,
    "amqproxy/conversion": 0,
    "amqproxy/pipeline": 0,
    "amqproxy/process": 0,
    "amqproxy/rules": 0,
    "amqproxy/sockets": 0,
    "amqproxy/testing": 0,
    "amqproxy/top": 0,
}
"""Shapes that a room may have, at most."""

OTHERS = 42
"""Shapes that all other rooms together may have, at most."""

_CLAUSE = re.compile(
    r"(What|That|Those|Who|Whose|Whom|Which|Where|When|How|Why|Whatever|Nothing|Both|All (that|which)|The same)\b"
)
_HELPING = re.compile(r"(Have|Let|Do|Is|Are|Was|Were|Does|Did|Has|May|Must|Can|Could|Should|Would|Will)\b")
_PHRASES = re.compile(
    r"(?<!there )\b(is|are|was|were) (no (?!longer|more\b)\w+|to be \w+ed\b)|\bso (many|much)\b|\bgoes? on\b|"
    r"\bin whose stead\b|\bfrom (here|there|then) on\b",
    re.IGNORECASE | re.MULTILINE,
)

_APOLOGY = re.compile(r"^(A|Somewhat|Rather|Very) (long|large)( file)?,", re.MULTILINE)


def shapes_of(docstring: str) -> list[str]:
    """Return the names of the shapes in a docstring."""
    text = " ".join(docstring.split())
    summary = " ".join(docstring.strip().partition("\n\n")[0].split())
    found = [name for name, begins in (("clause", _CLAUSE), ("helping verb", _HELPING)) if begins.match(summary)]
    if summary.endswith("?"):
        found.append("question")
    if _PHRASES.search(text):
        found.append("phrase")
    if _APOLOGY.search(docstring):
        found.append("apology")
    return found


def docstrings_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the lines and texts of docstrings, including those below assignments."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            match statement:
                case ast.Expr(ast.Constant(str(text))):
                    yield statement.lineno, text


def comments_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines and texts of comments."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def findings_of(source: str) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the shape and the text of each shape in a module."""
    for line, text in docstrings_of(ast.parse(source)):
        for shape in shapes_of(text):
            yield line, shape, " ".join(text.split())
    for line, text in comments_of(source):
        if _PHRASES.search(text):
            yield line, "phrase", text


def room_of(path: Path) -> str:
    """Return the room of a file: its package below amqproxy/, or its top directory."""
    parts = path.relative_to(ROOT).parts
    return "/".join(parts[:2]) if parts[0] == "amqproxy" and len(parts) > 2 else parts[0]


def main(arguments: list[str]) -> int:
    """Print the counts by room; return 1 if a bound is exceeded."""
    is_verbose = "-v" in arguments
    rooms = {each for each in arguments if each != "-v"}
    counts: Counter[str] = Counter()
    for path in sorted(
        [*ROOT.glob("amqproxy/**/*.py"), *ROOT.glob("dashboard/*.py"), *ROOT.glob("dashboard/api/*.py")]
    ):
        room = room_of(path)
        for line, shape, text in findings_of(path.read_text(encoding="utf-8")):
            counts[room] += 1
            if is_verbose and (not rooms or room in rooms):
                print(f"{path.relative_to(ROOT)}:{line}: {shape}: {text[:120]}")
    wrong = [
        f"{room}: {counts[room]} shapes, {bound} allowed" for room, bound in BOUNDS.items() if counts[room] > bound
    ]
    others = sum(count for room, count in counts.items() if room not in BOUNDS)
    if others > OTHERS:
        wrong.append(f"other rooms: {others} shapes, {OTHERS} allowed")
    for each in wrong:
        print(f"{each}: reword them as CONTRIBUTING.md says (python tests/prose.py -v ROOM)", file=sys.stderr)
    if is_verbose:
        print(*(f"{count:5} {room}" for room, count in sorted(counts.items())), f"{others:5} in other rooms", sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
