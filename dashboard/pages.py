"""The built page of `dashboard/ui`, served from `static`."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, PlainTextResponse

from dashboard.problem import Problem

STATIC = Path(__file__).parent / "static"

NOT_BUILT = (
    "The dashboard's page is not built.\n\n"
    "In a checkout:        python hatch_build.py\n"
    "Installed from PyPI:  the package is broken; install it again\n\n"
    "The API is there: /api/docs\n"
)

_FOREVER = "public, max-age=31536000, immutable"
"""Cache header of files that have a digest of their content in their name."""


def serve_pages(app: FastAPI, static: Path = STATIC) -> None:
    """Serve the page for every path outside the API, so that all of its URLs can be shared."""
    root = static.resolve()

    @app.get("/{path:path}", include_in_schema=False)
    async def page(request: Request, path: str) -> Response:
        if path == "api" or path.startswith("api/"):
            raise Problem(404, "there is no such thing in the API: see /api/docs")
        file = _file_at(root, path)
        if file is not None:
            is_hashed = path.startswith("assets/")
            return FileResponse(file, headers={"cache-control": _FOREVER if is_hashed else "no-cache"})
        index = root / "index.html"
        if "." in path.rpartition("/")[2]:
            raise Problem(404, "there is no such file")
        if not index.is_file():
            return PlainTextResponse(NOT_BUILT, 503)
        return FileResponse(index, headers={"cache-control": "no-cache"})


def _file_at(root: Path, path: str) -> Path | None:
    """Return the page's file at this path; `None` if there is none."""
    try:
        file = (root / path).resolve()
        return file if path and file.is_relative_to(root) and file.is_file() else None
    except (OSError, RuntimeError, ValueError):  # too long, a loop of links, a NUL
        return None
