"""The routes of a view. A run is a number in its URL: nothing in a URL names a file."""

import json
import logging
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from http import HTTPStatus
from importlib import import_module
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from autorubric.errors import AutorubricError, InputError, NotSavedError, RunLockedError
from autorubric.files import read_text
from autorubric.view.guard import FILE_CSP, AccessGuard, App
from autorubric.view.labelling import ACTIONS, LabelQueues
from autorubric.view.page import ALL_ROWS, PAGE_ROWS, Page, PageQuery, PageRefusal
from autorubric.view.rendering import FORMATS, KINDS, digest_asset, read_asset, render_page
from autorubric.view.sources import Source


def list_tabs(source: Source, runs: int) -> list[tuple[str, str]]:
    """Return the non-empty pages of a run: the words of their links, and their paths under the run."""
    graded = source.has_items
    shown = [
        (True, "Summary", "/"),
        (graded, "Items", "/items"),
        (source.rubrics is not None, "Rubrics", "/rubrics"),
        (source.has_versions, "Versions", "/versions"),
        (graded, "Criteria", "/criteria"),
        (graded, "Agreement", "/agreement"),
        (graded and runs > 1, "Compare", "/compare"),
        (source.kind == "service", "Drift", "/drift"),
        ((source.directory / "selection.json").is_file(), "Best of k", "/best-of-k"),
        (graded, "Label", "/label"),
        (source.kind in ("evaluation", "synthesis"), "Live", "/live"),
    ]
    return [(name, path) for is_shown, name, path in shown if is_shown]


_LOG = logging.getLogger("autorubric.view")
_ASSETS = {"view.css": "text/css", "view.js": "text/javascript"}
_MOST_BODY = 1 << 20
_STATUSES = {RunLockedError: 409, NotSavedError: 507, InputError: 400}  # of other errors: 503


@dataclass(frozen=True, slots=True)
class View:
    """The state of a view.

    Attributes:
        sources: the runs.
        version: of this package.
        labelling: open queues.
    """

    sources: Sequence[Source]
    version: str
    labelling: LabelQueues

    def find_source(self, request: Request) -> Source:
        """Return the run that a URL names.

        Raises:
            Refusal: the run is unknown, or its directory was deleted.
        """
        number: int = request.path_params["run"]
        if not 0 <= number < len(self.sources):
            raise PageRefusal(404, f"run {number} does not exist; this view shows {len(self.sources)}")
        found = self.sources[number]
        if found.is_gone:
            raise PageRefusal(410, f"{found.name}: the run directory was deleted")
        return found

    def find_visible_source(self, request: Request) -> Source:
        """Return the run that a URL names, if its verdicts may be shown.

        Raises:
            Refusal: as `find_source`, or the run is being labelled.
        """
        found = self.find_source(request)
        if self.labelling.is_hidden(found):
            raise PageRefusal(
                403,
                f"{found.name} is being labelled, so its verdicts are hidden",
                "End labelling on its page Label to see this page.",
            )
        return found


def make_app(view: View, token: str | None) -> App:
    """Return the application, behind its guard.

    Args:
        view: what is shown.
        token: what callers must send; None if only this machine can call.
    """
    page = partial(_route, view)
    label: dict[str, Any] = {"labelling": view.labelling}
    compared: dict[str, Any] = {"others": view.sources, "is_hidden": view.labelling.is_hidden}
    routes = [
        Route("/", partial(_send_runs, view), methods=["GET"]),
        Route("/static/{name}", _send_asset, methods=["GET"]),
        page("/", "runs_page.build_summary_page", slow=True),
        page("/items", "items_page.build_items_page", slow=True),
        page("/items/{item:int}", "item_page.build_item_page"),
        page("/items/{item:int}/calls", "item_page.build_calls_page", slow=True),
        page("/criteria", "agreement_page.build_criteria_page"),
        page("/criteria/{criterion:int}", "agreement_page.build_criterion_page", slow=True),
        page("/agreement", "agreement_page.build_agreement_page", slow=True),
        page("/compare", "comparison_page.build_comparison_page", slow=True, **compared),
        page("/rubrics", "rubrics_page.build_rubrics_page", slow=True),
        page("/rubrics/{rubric:int}", "rubrics_page.build_rubric_page", slow=True),
        page("/versions", "rubrics_page.build_versions_page", slow=True),
        page("/drift", "training_page.build_drift_page", slow=True),
        page("/best-of-k", "training_page.build_best_page"),
        page("/live", "runs_page.build_live_page", slow=True),
        page("/label", "labels_page.build_label_page", blind=True, **label),
        page("/label/adjudicate", "labels_page.build_adjudication_page", blind=True, **label),
        page("/label/figures", "labels_page.build_figures_page", slow=True, blind=True, **label),
        Route("/r/{run:int}/report.html", partial(_send_report, view), methods=["GET"]),
        Route("/r/{run:int}/label/{action}", partial(_answer_write, view), methods=["POST"]),
    ]
    handlers: dict[Any, Any] = {
        HTTPException: partial(_answer_not_found, view),
        Exception: partial(_answer_internal_error, view),
    }
    return AccessGuard(Starlette(routes=routes, exception_handlers=handlers), token)


def _route(view: View, path: str, name: str, *, slow: bool = False, blind: bool = False, **more: Any) -> Route:
    """Return a route to a page of one run.

    Args:
        view: what is shown.
        path: under that of the run.
        name: of the function that builds the page, in a module of `pages`; imported on first use.
        slow: build the page in a thread, so that it does not block others.
        blind: the page shows no verdict, so that it may be seen while labels are collected.
        more: further arguments of the function.
    """

    async def answer(request: Request) -> Response:
        query = _read_query(request)
        source: Source | None = None
        try:
            source = view.find_source(request)
            if not blind:
                view.find_visible_source(request)
            make = partial(_load_page(name), **more)
            given = [value for name, value in request.path_params.items() if name != "run"]
            made = await run_in_threadpool(make, source, query, *given) if slow else make(source, query, *given)
        except (PageRefusal, AutorubricError, sqlite3.Error, OSError) as error:
            made = _build_error_page(error, source)
        except OverflowError:
            made = _build_problem_page(404, "a number in the address is larger than any in the run")
        return _build_response(view, request, query, made, source)

    return Route(f"/r/{{run:int}}{path}", answer, methods=["GET"])


@cache
def _load_page(name: str) -> Callable[..., Any]:
    """Return a function of `pages`, imported on first use: all imports would double the time until the first page."""
    module, _, function = name.partition(".")
    found: Callable[..., Any] = getattr(import_module(f"autorubric.view.pages.{module}"), function)
    return found


def _read_query(request: Request) -> PageQuery:
    pairs = request.query_params.multi_items()
    return PageQuery(pairs, ALL_ROWS if ("format", "csv") in pairs else PAGE_ROWS)


async def _send_runs(view: View, request: Request) -> Response:
    page = _load_page("runs_page.build_runs_page")(view.sources, view.labelling.is_hidden)
    return _build_response(view, request, _read_query(request), page, None)


def _build_error_page(error: Exception, source: Source | None) -> Page:
    if isinstance(error, PageRefusal):
        return _build_problem_page(error.status, error.problem, error.advice)
    if source is not None and source.is_gone:
        return _build_problem_page(410, f"{source.name}: the run directory was deleted")
    if isinstance(error, AutorubricError):
        return _build_problem_page(422, str(error))
    _LOG.warning("a page could not be rendered: %s", error)
    return _build_problem_page(503, f"the files cannot be read at the moment: {error}", "Reload the page.")


def _build_problem_page(status: int, problem: str, advice: str = "") -> Page:
    data = {"status": status, "problem": problem, "advice": advice}
    title = "Hidden while labelling" if status == 403 else HTTPStatus(status).phrase
    return Page("layout", title, data, [data], status=status)


def _build_response(view: View, request: Request, query: PageQuery, page: Page, source: Source | None) -> Response:
    try:
        form = query.read_choice("format", FORMATS)
    except PageRefusal as error:
        form, page = "html", _build_problem_page(error.status, error.problem)
    share = page.data.get("index", {}).get("share", 1.0)
    if form == "csv" and share < 1.0:  # a table has no room for a note
        page = _build_problem_page(503, f"{share:.0%} of the results have been read so far; try again later")
    home = request.scope.get("root_path", "")
    surroundings = {
        "runs_shown": [{"number": run.number, "name": run.name} for run in view.sources],
        "run": None if source is None else {"number": source.number, "name": source.name, "change": source.change},
        "tabs": [] if source is None or source.is_gone else list_tabs(source, len(view.sources)),
        "path": request.url.path,
        "query": query,
        "home": home,
        "root": home if source is None else f"{home}/r/{source.number}",
        "version": view.version,
    }
    body = render_page(page, form, surroundings)
    headers = {"cache-control": "no-store"}
    if page.status == 503:
        headers |= {"retry-after": "1", "refresh": "1"}
    return Response(body, page.status, headers, f"{KINDS[form]}; charset=utf-8")


async def _send_asset(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _ASSETS:
        raise HTTPException(404)
    headers = {"cache-control": "max-age=31536000, immutable", "etag": f'"{digest_asset(name)}"'}
    return Response(read_asset(name), 200, headers, _ASSETS[name])


async def _send_report(view: View, request: Request) -> Response:
    """Return the report that `improve` or `review` wrote."""
    try:
        text = await run_in_threadpool(read_text, view.find_visible_source(request).directory / "report.html")
    except (PageRefusal, AutorubricError) as error:
        return _build_response(view, request, _read_query(request), _build_error_page(error, None), None)
    return HTMLResponse(text, 200, {"cache-control": "no-store", "content-security-policy": FILE_CSP})


async def _answer_write(view: View, request: Request) -> Response:
    """Answer a request that writes, once its data is on disk."""
    status, value = 200, {}
    try:
        source, action = view.find_source(request), request.path_params["action"]
        if action not in ("open", "close", *ACTIONS):
            raise PageRefusal(404, f"unknown action {action[:40]!r}; expected open, close, {', '.join(ACTIONS)}")
        body = await _read_body(request)
        value = await run_in_threadpool(view.labelling.carry_out, source, action, body)
    except (PageRefusal, AutorubricError, sqlite3.Error, OSError) as error:
        known = (status for kind, status in _STATUSES.items() if isinstance(error, kind))
        status = error.status if isinstance(error, PageRefusal) else next(known, 503)
        value = {"problem": f"nothing was stored: {error}" if status == 503 else str(error)}
    headers = {"cache-control": "no-store"}
    return Response(json.dumps(value), status, headers, "application/json")


async def _read_body(request: Request) -> dict[str, Any]:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BODY:
            raise PageRefusal(413, f"the body is longer than {_MOST_BODY:,} bytes")
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise PageRefusal(400, "the body is not a JSON object")
    return found


async def _answer_not_found(view: View, request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    page = _build_problem_page(status, "page not found" if status == 404 else HTTPStatus(status).phrase)
    return _build_response(view, request, _read_query(request), page, None)


async def _answer_internal_error(view: View, request: Request, error: Exception) -> Response:
    _LOG.error("internal error, please report this bug", exc_info=error)
    page = _build_problem_page(500, f"internal error, please report this bug: {type(error).__name__}")
    return _build_response(view, request, PageQuery(()), page, None)
