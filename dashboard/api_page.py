"""The API's documentation as a page without scripts, rendered from its OpenAPI document."""

from __future__ import annotations

from html import escape
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse

STYLE = """\
:root{color-scheme:light dark}
body{font:14px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
h2{margin-top:2rem;text-transform:capitalize}
h3{font:600 14px ui-monospace,monospace;margin:1.2rem 0 .2rem}
table{border-collapse:collapse;margin:.4rem 0}
td,th{text-align:left;padding:.1rem .8rem .1rem 0;vertical-align:top}
p{margin:.2rem 0}
"""


def serve_api_page(app: FastAPI) -> None:
    """Serve the page at /api/docs."""

    @app.get("/api/docs", include_in_schema=False)
    async def page(request: Request) -> HTMLResponse:
        return HTMLResponse(api_page(app.openapi(), str(app.openapi_url)))

    @app.get("/api/docs.css", include_in_schema=False)
    async def style() -> Response:
        return Response(STYLE, media_type="text/css")


def api_page(document: dict[str, Any], url: str) -> str:
    """Render an OpenAPI document, which is served at `url`, as HTML."""
    by_tag: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            by_tag.setdefault(operation["tags"][0], []).append(_operation(path, method, operation))
    sections = "".join(f"<h2>{escape(tag)}</h2>{''.join(each)}" for tag, each in by_tag.items())
    title = escape(document["info"]["title"])
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}: API</title>'
        '<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/api/docs.css"></head>'
        f"<body><h1>{title}: API</h1><p>Version {escape(document['info']['version'])}. As OpenAPI: "
        f'<a href="{escape(url)}">{escape(url)}</a>. The WebSocket is /api/v1/live.</p>{sections}</body></html>'
    )


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(each['name'])}</code></td><td>{escape(each['in'])}</td>"
        f"<td>{'needed' if each.get('required') else ''}</td></tr>"
        for each in operation.get("parameters", ())
    )
    table = f"<table>{rows}</table>" if rows else ""
    body = "".join(
        f"<p>Body: {escape(kind)}, {escape(str(each['schema'].get('$ref', '')).rpartition('/')[2])}</p>"
        for kind, each in operation.get("requestBody", {}).get("content", {}).items()
    )
    text = escape(operation.get("description", operation.get("summary", "")))
    return f"<h3>{method.upper()} {escape(path)}</h3><p>{text}</p>{table}{body}"
