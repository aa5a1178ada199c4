"""The server: one page, and a stream of events for each state of its controls.

It listens on loopback, and every address begins with a random token. The stream belongs to one
state: when the page moves on or its tab closes, the connection ends, and with it the process that
answers.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import count as counter
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined

from forecache.hwprofiles.files import dump_yaml, load_yaml
from forecache.models.advice.quick_estimate import ERROR
from forecache.sim.errors import InputError
from forecache.sim.installing import install_command

from ..text.formats import percent
from . import view
from .controls import CONTROLS, engine_names, host_names
from .job import NAMES, Failed, PageState
from .processes import Jobs
from .view import Answer, Results

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

LOOPBACK = "127.0.0.1"
MOST_SCENARIO_BYTES = 20_000
NARROW_PX, LEAST_PX, MOST_PX = 358, 280, 900
_TYPES = {"explore.css": "text/css", "explore.js": "text/javascript"}
_POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass
class Explorer:
    """What all requests share: the scenario to begin with, processes, earlier results."""

    scenario: Mapping[str, Any]
    seed: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    jobs: Jobs = field(default_factory=Jobs)
    results: Results = field(default_factory=Results)
    drawings: counter[int] = field(default_factory=lambda: counter(1))
    # Matplotlib's settings are the process's.
    drawing: threading.Lock = field(default_factory=threading.Lock)

    def page(self) -> str:
        """The page, with the scenario to begin with."""
        environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
        return environment.from_string(_text("explore.html.jinja")).render(
            controls=CONTROLS,
            sides=list(enumerate(NAMES)),
            engines=engine_names(),
            hosts=host_names(),
            scenario=dump_yaml(self.scenario),
            throughput_error=percent(ERROR["throughput_rps"]),
            latency_error=percent(ERROR["p99_ms"]),
        )

    async def events(
        self, question: PageState, width_px: float
    ) -> AsyncGenerator[tuple[str, Any], None]:
        """Names and contents of events until everything is simulated, or something has failed."""
        job = self.jobs.take()
        answer = Answer()
        try:
            job.ask(question)
            # While this one is answered, the next process is made ready.
            filled = asyncio.create_task(asyncio.to_thread(self.jobs.fill))
            async with aclosing(job.messages()) as found:
                async for messages in found:
                    changed = answer.take(messages, self.results)
                    async for event in self._shown(changed, answer, width_px):
                        yield event
                    if isinstance(last := messages[-1], Failed):
                        reason = {"reason": last.reason, "input_error": last.input_error}
                        yield "failed", reason
                        return
            await filled
            yield "ended", {}
        finally:
            job.end()

    async def _shown(
        self, changed: set[str], answer: Answer, width_px: float
    ) -> AsyncGenerator[tuple[str, Any], None]:
        """The events of what has changed."""
        if "scenario" in changed:
            yield "scenario", view.scenario_state(answer)
        if changed - {"progress"}:
            yield "table", {"rows": view.rows(answer), "warnings": view.warnings(answer)}
        for name in view.figures_after(changed, answer):
            if svg := await asyncio.to_thread(self._drawn, name, answer, width_px):
                title = view.figure_titles(answer)[name]
                yield "figure", {"name": name, "title": title, "svg": svg}
        if changed - {"progress", "scenario"}:
            yield "data", view.data_file(answer)
        if (done := answer.progress) is not None:
            yield "progress", {"done": done.done, "of": done.of}

    def _drawn(self, name: str, answer: Answer, width_px: float) -> str | None:
        with self.drawing:
            return view.draw(name, answer, width_px=width_px, drawing=next(self.drawings))


def question_of(parameters: Mapping[str, str], *, known: frozenset[str], seed: int) -> PageState:
    """The question that the page asks by its address: `a`, `b` and `changes`.

    Raises
    ------
    InputError
        A scenario is no YAML mapping, or is too long.
    """
    texts = [parameters[name.lower()] for name in NAMES if parameters.get(name.lower())]
    scenarios = tuple(_mapping(text, f"scenario {NAMES[n]}") for n, text in enumerate(texts))
    try:
        changes = json.loads(parameters.get("changes") or "[]")
    except ValueError:
        changes = None
    if not isinstance(changes, list) or not all(isinstance(each, dict) for each in changes):
        raise InputError("found changes that are no list of mappings; valid is what the page asks.")
    changes += [{}] * (len(scenarios) - len(changes))
    if not scenarios:
        raise InputError("found no scenario; valid is one in the address, or two.")
    return PageState(scenarios, tuple(changes[: len(scenarios)]), known, seed)


def _mapping(text: str, name: str) -> dict[str, Any]:
    import yaml

    if len(text) > MOST_SCENARIO_BYTES:
        raise InputError(f"{name}: found {len(text)} characters; valid is a shorter scenario.")
    try:
        data = load_yaml(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise InputError(f"{name}: the address holds no YAML; valid is a mapping.") from None
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise InputError(f"{name}: found no mapping of fields; valid is a scenario as YAML.")
    return data


def application(explorer: Explorer) -> Starlette:
    """The application, which answers below its token only and to no other name of this machine."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.responses import HTMLResponse, Response, StreamingResponse
    from starlette.routing import Route

    def page(request: Request) -> Response:
        del request
        return HTMLResponse(explorer.page(), headers=_HEADERS)

    def part(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _TYPES:
            return Response(status_code=404)
        return Response(_text(name), media_type=_TYPES[name], headers=_HEADERS)

    def stream(request: Request) -> Response:
        headers = _HEADERS | {"X-Accel-Buffering": "no"}
        return StreamingResponse(
            _lines(explorer, request.query_params), media_type="text/event-stream", headers=headers
        )

    routes = [
        Route(f"/{explorer.token}/", page),
        Route(f"/{explorer.token}/events", stream),
        Route(f"/{explorer.token}/{{name}}", part),
    ]
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=[LOOPBACK, "localhost"])
    return Starlette(routes=routes, middleware=[hosts])


async def _lines(explorer: Explorer, parameters: Mapping[str, str]) -> AsyncIterator[str]:
    """The events of one question as a browser's EventSource reads them."""
    try:
        question = question_of(parameters, known=explorer.results.keys, seed=explorer.seed)
        width_px = min(MOST_PX, max(LEAST_PX, float(parameters.get("width") or NARROW_PX)))
    except (InputError, ValueError) as error:
        yield _event("failed", {"reason": str(error), "input_error": True})
        return
    async with aclosing(explorer.events(question, width_px)) as events:
        async for name, content in events:
            yield _event(name, content)


def _event(name: str, content: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(content, ensure_ascii=False)}\n\n"


def _text(name: str) -> str:
    folder = files("forecache.reports.explore").joinpath("templates")
    text = folder.joinpath(name).read_text(encoding="utf-8")
    if name == "explore.css":
        # Colours, type and tables are those of the reports.
        report = files("forecache.reports").joinpath("templates", "report.css")
        return report.read_text(encoding="utf-8") + text
    return text


def serve(explorer: Explorer, *, port: int, ready: Callable[[str], None]) -> None:
    """Serve until interrupted.

    Parameters
    ----------
    port
        0 takes any that is free.
    ready
        Called with the page's address once it can be opened.
    """
    try:
        import starlette  # noqa: F401
        import uvicorn
    except ImportError:
        raise InputError(
            "explore needs the packages starlette and uvicorn; "
            f"`{install_command('explore')}` installs them."
        ) from None
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((LOOPBACK, port))
    except OSError as error:
        listening.close()
        raise InputError(f"--port {port}: can't be listened on: {error.strerror}.") from None
    address = f"http://{LOOPBACK}:{listening.getsockname()[1]}/{explorer.token}/"

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            ready(address)

    settings = uvicorn.Config(
        application(explorer),
        log_level="critical",
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
    )
    try:
        explorer.jobs.fill()
        Server(settings).run(sockets=[listening])
    finally:
        listening.close()
        explorer.jobs.close()
