"""A view of a few runs, and Debian's Chromium in front of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, sync_playwright

from tests.cli.test_serve import serving
from tests.training.evolution.scripted import ROLLOUTS, scripted
from tests.training.evolution.test_serve_evolve import flags_of, rewards
from tests.view.viewing import RUBRIC, STORED, Viewer, item, judged, line, viewing, vote, write_run

FLAGS = (
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
CAUSE, BRIEF = RUBRIC
# 40 texts that have run script somewhere; each calls `hacked`, which no page has.
PAYLOADS = [
    "<script>hacked()</script>",
    "<img src=x onerror=hacked()>",
    "<svg onload=hacked()>",
    '"><script>hacked()</script>',
    "'><img src=x onerror=hacked()>",
    "</title><script>hacked()</script>",
    "</textarea><script>hacked()</script>",
    "<iframe srcdoc='<script>parent.hacked()</script>'>",
    "<body onload=hacked()>",
    "<details open ontoggle=hacked()>",
    "<video><source onerror=hacked()>",
    "<audio src=x onerror=hacked()>",
    "<input autofocus onfocus=hacked()>",
    "<select autofocus onfocus=hacked()>",
    "<marquee onstart=hacked()>",
    "<object data=javascript:hacked()>",
    "<embed src=javascript:hacked()>",
    "<a href=javascript:hacked()>x</a>",
    "<form action=javascript:hacked()><button>x",
    "<math><mtext></mtext><script>hacked()</script></math>",
    "<svg><script>hacked()</script></svg>",
    "<svg><animate onbegin=hacked() attributeName=x>",
    "<svg><a xlink:href=javascript:hacked()><text>x</text></a></svg>",
    "<style>@import 'javascript:hacked()'</style>",
    "<link rel=stylesheet href=javascript:hacked()>",
    "<meta http-equiv=refresh content=0;url=javascript:hacked()>",
    "<base href=javascript:hacked()//>",
    "<template><script>hacked()</script></template>",
    '<noscript><p title="</noscript><script>hacked()</script>">',
    '"onmouseover="hacked()',
    "'onmouseover='hacked()",
    "`onmouseover=`hacked()",
    "javascript:hacked()//",
    "{{hacked()}}",
    "${hacked()}",
    "{% print(hacked) %}",
    "]]><script>hacked()</script>",
    "--><script>hacked()</script>",
    '\\"><script>hacked()</script>',
    "&lt;script&gt;hacked()&lt;/script&gt;",
]


def ballots(n: int) -> list[Any]:
    return [
        vote("judge-a", "CANNOT_ASSESS" if n % 7 == 6 else "MET" if n % 3 else "UNMET", f"Judge a says this of {n}."),
        vote("judge-b", "MET", f"Judge b says this of {n}."),
    ]


def plain_run(folder: Path) -> Path:
    items = [
        item(
            n, "MET" if n % 4 else "UNMET", "MET", submission=f"Essay {n}. The moon pulls the water.\n\nTwice a day."
        )
        for n in range(120)
    ]
    lines = [
        line(
            n,
            n % 11 / 10,
            [
                judged(
                    CAUSE,
                    "MET" if n % 3 else "UNMET",
                    ballots(n),
                    confidence=(n % 10 + 0.5) / 10,
                    quotes=[{"text": "The moon", "start": 9 if n > 9 else 8, "end": 17}],
                ),
                judged(BRIEF, "MET", ballots(n)),
            ],
        )
        for n in range(120)
    ]
    return write_run(folder, items, lines)


def hostile_run(folder: Path) -> Path:
    items, lines = [], []
    for n, text in enumerate(PAYLOADS):
        criterion = {"name": text[:60], "weight": 1.0, "requirement": text}
        items.append(
            item(
                n,
                submission=text,
                description=text,
                id=f"{n} {text}",
                prompt=text,
                reference_submission=text,
                rubric=[criterion],
            )
        )
        found = judged(
            criterion,
            "MET",
            [vote(text, "MET", text), vote("b", "UNMET", text)],
            reason=text,
            flags=[text],
            quotes=[{"text": text, "start": 0, "end": len(text)}],
        )
        lines.append(line(n, 0.5, [found], flags=[text]))
    return write_run(folder, items, lines, name=PAYLOADS[0])


def big_run(folder: Path) -> Path:
    """Long words, right-to-left text, hidden characters."""
    odd = "\u05e9\u05dc\u05d5\u05dd \u202eabc\u200b " + "x" * 3000
    criterion = {"name": "N" * 60, "weight": 1.0, "requirement": odd}
    return write_run(
        folder,
        [item(0, submission=odd, prompt=odd, id="i" * 80, rubric=[criterion])],
        [line(0, 1.0, [judged(criterion, "MET", ballots(0), reason=odd)])],
    )


def evolved_run(folder: Path) -> Path:
    """A run of `serve` with an audit and a second version of its rubric."""
    with scripted().in_thread() as endpoint:
        audit = ["--audit", f"qwen-max@{endpoint.base_url}", "--audit-share", "1"]
        with serving(*flags_of(endpoint, folder, *audit)) as (process, url):
            for step in range(1, 5):
                rewards(url, step, [f"{text} {'Rest. ' * step}" for text in ROLLOUTS])
            process.terminate()
            process.communicate(timeout=600)
    return folder


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    for name in ("grade", "grade_panel", "select", "serve", "synthesize_full"):
        shutil.copytree(STORED / name / "run", folder / name)
    made = [plain_run(folder / "plain"), hostile_run(folder / "hostile"), big_run(folder / "odd")]
    hashes = {path: number for number, path in enumerate(made)}
    for path, number in hashes.items():
        manifest = json.loads((path / "manifest.json").read_text())
        (path / "manifest.json").write_text(json.dumps({**manifest, "dataset_hash": f"hash {number}"}))
    stored = [folder / name for name in ("grade", "grade_panel", "select", "serve", "synthesize_full")]
    return [*made, *stored, evolved_run(folder / "evolved")]


PAGES = (
    "/",
    "/r/0/",
    "/r/0/items",
    "/r/0/items?sort=worst&disputed=1",
    "/r/0/items/3?focus=1",
    "/r/0/items/3/calls?focus=1",
    "/r/0/criteria",
    "/r/0/criteria/0",
    "/r/0/agreement",
    "/r/4/compare?with=3",
    "/r/0/live",
    "/r/0/label",
    "/r/2/",
    "/r/2/items",
    "/r/2/items/0",
    "/r/2/criteria/0",
    "/r/4/items/0/calls?focus=1",
    "/r/5/best-of-k",
    "/r/6/drift",
    "/r/7/rubrics",
    "/r/7/rubrics/0",
    "/r/8/",
    "/r/8/drift",
    "/r/8/versions",
    "/r/0/items?sort=odd",
    "/nowhere",
)
"""Every kind of page; the last two are refusals."""


@pytest.fixture(scope="session")
def view(runs: list[Path]) -> Iterator[Viewer]:
    with viewing(*runs) as viewer:
        yield viewer.indexed(0, 1, 2, 3, 4, 5)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    path = shutil.which("chromium")
    assert path, "there is no chromium: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS), chromium_sandbox=False)
        yield browser
        browser.close()


@dataclass
class Tab:
    """A page in the browser, and what it complained about."""

    page: Page
    url: str
    complaints: list[str] = field(default_factory=list)

    def open(self, path: str) -> Tab:
        self.page.goto(self.url + path)
        self.page.wait_for_load_state("load")
        return self


@pytest.fixture
def tab(chromium: Browser, view: Viewer) -> Iterator[Tab]:
    with tab_of(chromium, view) as found:
        yield found


@contextmanager
def tab_of(chromium: Browser, view: Viewer, **settings: Any) -> Iterator[Tab]:
    """A tab whose console, errors, CSP violations and requests to elsewhere are complaints."""
    context = chromium.new_context(**settings)
    page = context.new_page()
    found = Tab(page, view.url)
    page.on("console", lambda message: _unless_refused(found, message.text))
    page.on("pageerror", lambda error: found.complaints.append(f"page error: {error}"))

    def watch(route: Route) -> None:
        if route.request.url.startswith((view.url, "data:")):
            route.continue_()
        else:
            found.complaints.append(f"request to {route.request.url}")
            route.abort()

    context.route("**/*", watch)
    page.add_init_script(
        "document.addEventListener('securitypolicyviolation', e => console.error('CSP: ' + e.violatedDirective))"
    )
    page.add_init_script("window.hacked = () => console.error('hacked')")
    try:
        yield found
    finally:
        context.close()


def _unless_refused(found: Tab, text: str) -> None:
    # The browser itself reports pages that are refused on purpose.
    if "the server responded with a status of 4" not in text:
        found.complaints.append(f"console: {text}")
