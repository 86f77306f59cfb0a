"""The built page of `dashboard/ui`, served from `static`."""

from __future__ import annotations

import gzip
from functools import lru_cache
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, PlainTextResponse

from amqproxy.dashboard.problem import Problem

STATIC = Path(__file__).parent / "static"

NOT_BUILT = (
    "The dashboard's page is not built.\n\n"
    "In a checkout:        python hatch_build.py\n"
    "Installed from PyPI:  the package is broken; install it again\n\n"
    "The API is there: /api/docs\n"
)

_FOREVER = "public, max-age=31536000, immutable"
"""Cache header of files that have a digest of their content in their name."""


_PACKED = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}
"""Media types of the files that are sent as gzip to browsers that accept it: a third of their bytes."""


def serve_pages(app: FastAPI, static: Path = STATIC) -> None:
    """Serve the page for every path outside the API, so that all of its URLs can be shared."""
    root = static.resolve()

    @app.get("/{path:path}", include_in_schema=False)
    async def page(request: Request, path: str) -> Response:
        if path == "api" or path.startswith("api/"):
            raise Problem(404, "there is no such thing in the API: see /api/docs")
        file = _file_at(root, path)
        if file is not None:
            headers = {
                "cache-control": _FOREVER if path.startswith("assets/") else "no-cache",
                "vary": "accept-encoding",
            }
            media_type = _PACKED.get(file.suffix)
            if media_type is None or "gzip" not in request.headers.get("accept-encoding", ""):
                return FileResponse(file, headers=headers)
            data = _gzipped(file, file.stat().st_mtime_ns)
            return Response(data, headers={**headers, "content-encoding": "gzip"}, media_type=media_type)
        index = root / "index.html"
        if "." in path.rpartition("/")[2]:
            raise Problem(404, "there is no such file")
        if not index.is_file():
            return PlainTextResponse(NOT_BUILT, 503)
        return FileResponse(index, headers={"cache-control": "no-cache"})


@lru_cache(maxsize=32)
def _gzipped(file: Path, modified_ns: int) -> bytes:
    """Return a file as gzip, packed once; `modified_ns` tells a rebuilt file from the earlier one."""
    return gzip.compress(file.read_bytes(), mtime=0)


def _file_at(root: Path, path: str) -> Path | None:
    """Return the page's file at this path; `None` if there is none."""
    try:
        file = (root / path).resolve()
        return file if path and file.is_relative_to(root) and file.is_file() else None
    except (OSError, RuntimeError, ValueError):  # too long, a loop of links, a NUL
        return None
