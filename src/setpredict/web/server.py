"""The HTTP server: the page, the API, and their limits."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import torch
import uvicorn
from fastapi import FastAPI, Request
from fastapi import Path as InPath
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from setpredict import __version__
from setpredict.core.errors import UserError
from setpredict.web.batching import DecodeQueue
from setpredict.web.body_limit import BodyLimit
from setpredict.web.catalog import Served, load_catalog
from setpredict.web.connection import time_limited
from setpredict.web.first_samples import choose_first_samples
from setpredict.web.hosts import HostCheck, reach, served_names
from setpredict.web.images import ImageQueue
from setpredict.web.inputs import input_kind
from setpredict.web.limits import BadInput, Limits, TooBusy
from setpredict.web.schema import DecodeAnswer, DecodeRequest, ModelInfo, Problem

STATIC = Path(__file__).parent / "static"
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


def create_app(models: dict[str, Served], limits: Limits | None = None, hosts: Sequence[str] = ()) -> FastAPI:
    """The application for some models; `hosts` are the names that it answers to, beside local ones and its address."""
    limits = limits or Limits()
    queue, images = DecodeQueue(limits), ImageQueue(limits)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        if any(served.task.input_kind == "image" for served in models.values()):
            images.process.start()  # so that the first image need not wait for it
        yield
        images.close()
        queue.close()

    app = FastAPI(
        title="setpredict",
        version=__version__,
        summary="Decode vectors, points and images into sets, step by step.",
        docs_url=None,  # FastAPI's own pages load scripts from a CDN; ours is /docs below
        redoc_url=None,
        lifespan=lifespan,
    )
    app.add_middleware(BodyLimit, max_bytes=limits.body_bytes, seconds=limits.body_seconds)
    app.add_middleware(HostCheck, names=hosts)

    @app.middleware("http")
    async def with_headers(request: Request, call_next):
        response = await call_next(request)
        response.headers.update(HEADERS)
        return response

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        # FastAPI's own response repeats the input, which may contain NaN and then cannot be written as JSON.
        return _problem(422, "; ".join(_as_text(e) for e in error.errors()[:3]))

    @app.exception_handler(HTTPException)
    async def rejected(request: Request, error: HTTPException) -> JSONResponse:
        return _problem(error.status_code, str(error.detail), error.headers)

    @app.get("/healthz", tags=["server"])
    async def healthz() -> dict[str, str | int]:
        """Whether the server is up, and the number of waiting requests."""
        waiting = len(queue.waiting) + images.waiting
        return {"status": "ok", "version": __version__, "models": len(models), "waiting": waiting}

    choose_first_samples(models.values())
    infos = [served.info() for served in models.values()]

    @app.get("/api/models", tags=["models"])
    async def list_models() -> list[ModelInfo]:
        """The models, their inputs and their scores."""
        return infos

    named = InPath(max_length=200, description="A name from /api/models.", json_schema_extra={"enum": list(models)})

    @app.post(
        "/api/{model}/decode",
        tags=["models"],
        response_model=DecodeAnswer,
        responses={
            400: {"model": Problem, "description": "The body is not text, or the host is not one that is served."},
            404: {"model": Problem, "description": "No such model."},
            408: {"model": Problem, "description": "The body did not arrive in time."},
            413: {"model": Problem, "description": "The body is too large."},
            422: {"model": Problem, "description": "The input does not fit the model; the detail gives the reason."},
            503: {"model": Problem, "description": "Too many requests are waiting."},
            504: {"model": Problem, "description": "The response took too long."},
        },
    )
    async def decode(request: DecodeRequest, model: str = named) -> Response:
        """Decode one input: the set after every step from Y0 to YT."""
        served = models.get(model)
        if served is None:
            raise HTTPException(404, f"model {model!r} not found; the models are {', '.join(models)}")
        remedy = "other images are decoded first; try again"
        try:
            async with asyncio.timeout(limits.seconds):
                pixels = None
                if input_kind(request, served) == "image":
                    pixels = await images.decode(request.image or "", served.task.input_size)
                remedy = "ask for fewer steps"
                content = await asyncio.wrap_future(queue.submit(request, served, pixels))
        except TooBusy as e:
            raise HTTPException(503, str(e), {"retry-after": "1"}) from None
        except TimeoutError:
            raise HTTPException(504, f"not answered within {limits.seconds:g} seconds; {remedy}") from None
        except BadInput as e:
            raise HTTPException(422, str(e)) from None
        return Response(content, media_type="application/json")

    _add_pages(app)
    return app


def serve(
    runs: Sequence[Path], host: str, port: int, allowed_hosts: Sequence[str] = (), allow_own_code: bool = False
) -> None:
    """Load the shipped models and the given runs, and serve until interrupted.

    Args:
        runs: Folders of runs.
        host: The address or name to listen on.
        port: The port to listen on (0: any free one).
        allowed_hosts: Names that it answers to beside its own; "*" is any.
        allow_own_code: Import encoders and decoders of somebody's own, as `load` does.
    """
    torch.set_num_threads(max(1, torch.get_num_threads() // 2))  # leave some of a small machine to the browser
    models = load_catalog(runs, allow_own_code)
    if not models:
        raise UserError("there are no models to serve: none is shipped with this installation and no --run was given")
    with _listen(host, port) as taken:
        address, port = taken.getsockname()[:2]
        hosts = served_names(host, address, allowed_hosts)
        app = create_app(models, hosts=hosts)
        shown = "localhost" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
        print(f"{len(models)} models. Open http://{shown}:{port}  (stop with Ctrl-C)")
        print(reach(address, hosts), flush=True)
        uvicorn.Server(settings(app)).run(sockets=[taken])


def settings(app: FastAPI, limits: Limits | None = None, **options: Any) -> uvicorn.Config:
    """uvicorn's configuration, with the limits that uvicorn itself enforces."""
    limits = limits or Limits()
    return uvicorn.Config(
        app,
        http=time_limited(limits.head_seconds),
        limit_concurrency=limits.connections + 1,  # uvicorn rejects the one that reaches it
        timeout_keep_alive=5,
        timeout_graceful_shutdown=5,
        ws="none",
        log_level="warning",
        **options,
    )


def _listen(host: str, port: int) -> socket.socket:
    """A bound socket, so that a port in use is a one-line error and the number of a free port is known."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        taken = socket.socket(family, socket.SOCK_STREAM)
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((host, port))
    except OSError as e:
        raise UserError(f"cannot listen on {host}, port {port}: {e.strerror or e}; choose another --port") from None
    return taken


def static_files() -> dict[str, Path]:
    """The files of the page, by their paths within its folder."""
    return {path.relative_to(STATIC).as_posix(): path for path in sorted(STATIC.rglob("*")) if path.suffix in TYPES}


def _add_pages(app: FastAPI) -> None:
    """One route per file of the page; no other file is reachable."""
    files = {f"/static/{name}": path for name, path in static_files().items()}
    files |= {"/": STATIC / "index.html", "/docs": STATIC / "docs.html"}
    for route, path in files.items():
        page = _page(path.read_bytes(), TYPES[path.suffix])
        app.router.add_route(route, page, methods=["GET"], include_in_schema=False)


def _page(content: bytes, kind: str):
    async def give(request: Request) -> Response:
        return Response(content, media_type=kind)

    return give


def _problem(status: int, detail: str, headers=None) -> JSONResponse:
    return JSONResponse({"detail": detail}, status, headers=headers)


def _as_text(error) -> str:
    """One validation error as text: "points[3][0]: Input should be …"."""
    if error["type"] == "json_invalid":
        return f"the body is not JSON: {error['ctx']['error']}"
    where = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in error["loc"][1:]).lstrip(".")
    return f"{where or error['loc'][0]}: {error['msg'].removeprefix('Value error, ')}"
