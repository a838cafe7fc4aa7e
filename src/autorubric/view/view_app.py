"""The routes of a view. A run is a number in its URL: nothing in a URL names a file."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from http import HTTPStatus
from importlib import import_module
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from autorubric.errors import AutorubricError, InputError, NotSavedError, RunLockedError
from autorubric.view.guard import App, Guard
from autorubric.view.labelling import ACTIONS, Labelling
from autorubric.view.page import Page, Query, Refusal
from autorubric.view.rendering import FORMATS, KINDS, asset, asset_mark, rendered
from autorubric.view.sources import Source


class Tab(NamedTuple):
    """A link of the navigation: its words, and where it leads under the run."""

    name: str
    path: str


def list_tabs(source: Source, runs: int) -> list[Tab]:
    """The pages of a run that have something to show."""
    graded, rubrics = source.has_items, source.rubrics is not None
    shown = [
        (True, Tab("Summary", "/")),
        (graded, Tab("Items", "/items")),
        (rubrics, Tab("Rubrics", "/rubrics")),
        ((source.directory / "rubric_versions.jsonl").is_file(), Tab("Versions", "/versions")),
        (graded, Tab("Criteria", "/criteria")),
        (graded, Tab("Agreement", "/agreement")),
        (graded and runs > 1, Tab("Compare", "/compare")),
        (source.kind == "service", Tab("Drift", "/drift")),
        ((source.directory / "selection.json").is_file(), Tab("Best of k", "/best-of-k")),
        (graded, Tab("Label", "/label")),
        (source.kind in ("evaluation", "synthesis"), Tab("Live", "/live")),
    ]
    return [tab for wanted, tab in shown if wanted]


_LOG = logging.getLogger("autorubric.view")
_ASSETS = {"view.css": "text/css", "view.js": "text/javascript"}
_MOST_BODY = 1 << 20


@dataclass(frozen=True, slots=True)
class View:
    """What is shown.

    Attributes:
        sources: the runs.
        version: of this package, for the foot of pages.
        labelling: the queues that are open.
    """

    sources: Sequence[Source]
    version: str
    labelling: Labelling = field(default_factory=Labelling)

    def source(self, request: Request) -> Source:
        """The run that a URL names.

        Raises:
            Refusal: the run is unknown, or its directory was deleted.
        """
        number: int = request.path_params["run"]
        if not 0 <= number < len(self.sources):
            raise Refusal(404, f"run {number} does not exist; this view shows {len(self.sources)}")
        found = self.sources[number]
        if found.is_gone:
            raise Refusal(410, f"{found.name}: the run directory was deleted")
        return found

    def seen(self, request: Request) -> Source:
        """The run that a URL names, where its verdicts may be seen.

        Raises:
            Refusal: as `source`, or the run is being labelled.
        """
        found = self.source(request)
        if self.labelling.hides(found):
            raise Refusal(
                403,
                f"{found.name} is being labelled, so its verdicts are hidden",
                "End labelling on its page Label to see this page.",
            )
        return found


def make_app(view: View, token: str | None) -> App:
    """The application, behind its guard.

    Args:
        view: what is shown.
        token: what callers must send; None if only this machine can call.
    """
    page = partial(_route, view)
    label: dict[str, Any] = {"labelling": view.labelling}
    routes = [
        Route("/", _route_all(view), methods=["GET"]),
        Route("/static/{name}", _asset, methods=["GET"]),
        page("/", "runs_page.summary_page"),
        page("/items", "items_page.items_page", slow=True),
        page("/items/{item:int}", "item_page.item_page"),
        page("/items/{item:int}/calls", "item_page.calls_page", slow=True),
        page("/criteria", "agreement_page.criteria_page"),
        page("/criteria/{criterion:int}", "agreement_page.criterion_page", slow=True),
        page("/agreement", "agreement_page.agreement_page", slow=True),
        page(
            "/compare", "comparison_page.comparison_page", slow=True, others=view.sources, hides=view.labelling.hides
        ),
        page("/rubrics", "rubrics_page.rubrics_page", slow=True),
        page("/rubrics/{rubric:int}", "rubrics_page.rubric_page", slow=True),
        page("/versions", "rubrics_page.versions_page", slow=True),
        page("/drift", "training_page.drift_page", slow=True),
        page("/best-of-k", "training_page.best_page"),
        page("/live", "runs_page.live_page", slow=True),
        page("/label", "labels_page.label_page", blind=True, **label),
        page("/label/adjudicate", "labels_page.adjudication_page", blind=True, **label),
        page("/label/figures", "labels_page.figures_page", slow=True, blind=True, **label),
        Route("/r/{run:int}/label/{action}", partial(_write, view), methods=["POST"]),
    ]
    handlers: dict[Any, Any] = {
        HTTPException: partial(_not_found, view),
        Exception: partial(_broken, view),
    }
    return Guard(Starlette(routes=routes, exception_handlers=handlers), token)


def _route(view: View, path: str, name: str, *, slow: bool = False, blind: bool = False, **more: Any) -> Route:
    """A route to a page of one run.

    Args:
        view: what is shown.
        path: under that of the run.
        name: of the function that makes the page, in a module of `pages`; loaded when it is first used.
        slow: make it in a thread, so that other pages are not held up.
        blind: it shows no verdict, so that it may be seen while labels are collected.
        more: what else the function is given.
    """

    async def answer(request: Request) -> Response:
        query = Query(request.query_params.multi_items())
        source: Source | None = None
        try:
            source = view.source(request)
            if not blind:
                view.seen(request)
            make = partial(_loaded(name), **more)
            given = [value for name, value in request.path_params.items() if name != "run"]
            made = await run_in_threadpool(make, source, query, *given) if slow else make(source, query, *given)
        except (Refusal, AutorubricError, sqlite3.Error, OSError) as error:
            made = _refused(error, source)
        except OverflowError:
            made = _problem(404, "a number in the address is larger than any in the run")
        return _response(view, request, query, made, source)

    return Route(f"/r/{{run:int}}{path}", answer, methods=["GET"])


@cache
def _loaded(name: str) -> Callable[..., Any]:
    """A function of `pages`: what all of them need together would be half of the time until the first page."""
    module, _, function = name.partition(".")
    found: Callable[..., Any] = getattr(import_module(f"autorubric.view.pages.{module}"), function)
    return found


def _route_all(view: View) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        query = Query(request.query_params.multi_items())
        return _response(
            view, request, query, _loaded("runs_page.runs_page")(view.sources, view.labelling.hides), None
        )

    return answer


def _refused(error: Exception, source: Source | None) -> Page:
    if isinstance(error, Refusal):
        return _problem(error.status, error.problem, error.advice)
    if source is not None and source.is_gone:
        return _problem(410, f"{source.name}: the run directory was deleted")
    if isinstance(error, AutorubricError):
        return _problem(422, str(error))
    _LOG.warning("a page could not be made: %s", error)
    return _problem(503, f"the files cannot be read at the moment: {error}", "Reload the page.")


def _problem(status: int, problem: str, advice: str = "") -> Page:
    data = {"status": status, "problem": problem, "advice": advice}
    title = "Hidden while labelling" if status == 403 else HTTPStatus(status).phrase
    return Page("layout", title, data, [data], status=status)


def _response(view: View, request: Request, query: Query, page: Page, source: Source | None) -> Response:
    try:
        form = query.choice("format", FORMATS)
    except Refusal as error:
        form, page = "html", _problem(error.status, error.problem)
    surroundings = {
        "runs_shown": [{"number": one.number, "name": one.name} for one in view.sources],
        "run": None if source is None else {"number": source.number, "name": source.name, "change": source.change},
        "tabs": [] if source is None or source.is_gone else list_tabs(source, len(view.sources)),
        "path": request.url.path,
        "query": query,
        "root": "" if source is None else f"/r/{source.number}",
        "version": view.version,
    }
    body = rendered(page, form, surroundings)
    headers = {"cache-control": "no-store"}
    if page.status == 503:
        headers |= {"retry-after": "1", "refresh": "1"}
    return Response(body, page.status, headers, f"{KINDS[form]}; charset=utf-8")


async def _asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _ASSETS:
        raise HTTPException(404)
    headers = {"cache-control": "max-age=31536000, immutable", "etag": f'"{asset_mark(name)}"'}
    return Response(asset(name), 200, headers, _ASSETS[name])


async def _write(view: View, request: Request) -> Response:
    """Answer a request that writes; it is answered once what it wrote is on disk."""
    status, value = 200, {}
    try:
        source, action = view.source(request), request.path_params["action"]
        if action not in ("open", "close", *ACTIONS):
            raise Refusal(404, f"unknown action {action[:40]!r}; expected open, close, {', '.join(ACTIONS)}")
        body = await _body(request)
        value = await run_in_threadpool(view.labelling.carry_out, source, action, body)
    except Refusal as error:
        status, value = error.status, {"problem": error.problem}
    except RunLockedError as error:
        status, value = 409, {"problem": str(error)}
    except NotSavedError as error:
        status, value = 507, {"problem": str(error)}
    except InputError as error:
        status, value = 400, {"problem": str(error)}
    except (AutorubricError, sqlite3.Error, OSError) as error:
        status, value = 503, {"problem": f"nothing was stored: {error}"}
    headers = {"cache-control": "no-store"}
    return Response(json.dumps(value), status, headers, "application/json")


async def _body(request: Request) -> dict[str, Any]:
    held = bytearray()
    async for chunk in request.stream():
        held += chunk
        if len(held) > _MOST_BODY:
            raise Refusal(413, f"the body is longer than {_MOST_BODY:,} bytes")
    try:
        found = json.loads(held)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Refusal(400, "the body is not a JSON object")
    return found


async def _not_found(view: View, request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    page = _problem(status, "page not found" if status == 404 else HTTPStatus(status).phrase)
    return _response(view, request, Query(request.query_params.multi_items()), page, None)


async def _broken(view: View, request: Request, error: Exception) -> Response:
    _LOG.error("internal error, please report this bug", exc_info=error)
    page = _problem(500, f"internal error, please report this bug: {type(error).__name__}")
    return _response(view, request, Query(()), page, None)
