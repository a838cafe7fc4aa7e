"""Who may ask, what answers say about themselves, and text that tries to be more than text."""

from __future__ import annotations

import re
import shutil
import socket
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from autorubric.cli.app import run
from tests.offenders import offenders
from tests.view.viewing import RUBRIC, STORED, Viewer, item, judged, line, viewing, vote, write_run

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    "</textarea><script>alert(1)</script>",
    "<iframe src=javascript:alert(1)>",
    "javascript:alert(1)",
    "{{7*7}}",
    "{% raw %}",
    "<a href=javascript:alert(1)>x</a>",
    "]]><script>alert(1)</script>",
    "<!--<script>",
    "--><script>alert(1)</script>",
    '<math><mi//xlink:href="data:x,<script>alert(1)</script>">',
    "<style>*{display:none}</style>",
    "<base href=//evil.example>",
    "<meta http-equiv=refresh content=0;url=//evil.example>",
    "<form action=//evil.example><button>",
    "&lt;script&gt;",
    "\x00<b>",
)
KNOWN = {"script", "link", "meta"}


class Elements(HTMLParser):
    """The elements of a page that could run, load or send something."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    items, lines = [], []
    for number, text in enumerate(HOSTILE):
        rubric = [{"name": text.replace("\x00", "?")[:60], "weight": 1.0, "requirement": text}]
        items.append(
            item(
                number,
                submission=text,
                description=text,
                id=f"{number}{text}",
                prompt=text,
                rubric=rubric,
                reference_submission=text,
            )
        )
        lines.append(
            line(
                number,
                0.5,
                [
                    judged(
                        rubric[0],
                        "MET",
                        [vote(text, "MET", text), vote("b", "UNMET", text)],
                        reason=text,
                        flags=[text],
                        quotes=[{"text": text, "start": None, "end": None}],
                    )
                ],
                flags=[text],
            )
        )
    run = write_run(tmp_path_factory.mktemp("safe") / "<b>run", items, lines, name="<script>alert(2)</script>")
    with viewing(run) as viewer:
        yield viewer.indexed()


def test_every_answer_carries_the_headers(view: Viewer) -> None:
    with offenders() as case:
        for path in (
            "/",
            "/r/0/",
            "/r/0/items",
            "/static/view.js",
            "/nowhere",
            "/r/9/",
            "/r/0/items?sort=odd",
            "/r/0/items?format=json",
        ):
            with case(path):
                headers = view.page(path).headers
                assert headers["content-security-policy"] == CSP
                assert headers["x-content-type-options"] == "nosniff"
                assert headers["referrer-policy"] == "no-referrer"
                assert "server" not in headers
    assert view.page("/", Host="evil.example").headers["content-security-policy"] == CSP


def test_the_report_of_an_improvement_or_a_review_is_linked_and_runs_no_script(tmp_path: Path) -> None:
    runs = [Path(shutil.copytree(STORED / name / "run", tmp_path / name)) for name in ("improve", "review")]
    hostile = f"<!doctype html>{HOSTILE[0]}"
    with viewing(*runs) as viewer:
        for number, run_folder in enumerate(runs):
            assert f'href="/r/{number}/report.html"' in viewer.page(f"/r/{number}/").text
            found = viewer.page(f"/r/{number}/report.html")
            assert (found.status, found.text) == (200, (run_folder / "report.html").read_text())
        (runs[0] / "report.html").write_text(hostile)  # a run directory may come from anybody
        found = viewer.page("/r/0/report.html")
        assert found.text == hostile
        assert found.headers["content-security-policy"] == "default-src 'none'; style-src 'unsafe-inline'; sandbox"
        assert found.headers["x-content-type-options"] == "nosniff"
        (runs[0] / "report.html").unlink()
        assert viewer.page("/r/0/report.html").status == 422


def test_hostile_text_stays_text_on_every_page(view: Viewer) -> None:
    paths = ["/", "/r/0/", "/r/0/items", "/r/0/criteria", "/r/0/agreement", "/r/0/live", "/r/0/label"]
    paths += [
        f"/r/0/{page}"
        for n in range(len(HOSTILE))
        for page in (f"items/{n}?focus=1", f"items/{n}/calls", f"criteria/{n}")
    ]
    paths += [f"/r/0/items?q={quote(text)}" for text in HOSTILE if "\x00" not in text]
    with offenders() as case:
        for path in paths:
            with case(path):
                answer = view.page(path)
                assert answer.status == 200, answer.text[-300:]
                parser = Elements()
                parser.feed(answer.text)
                for tag, attributes in parser.found:
                    assert tag not in ("iframe", "base", "style", "object", "embed", "math", "img"), tag
                    assert not any(name.startswith("on") or name == "style" for name in attributes), attributes
                    assert tag != "script" or (attributes.get("src") or "").startswith("/static/view.js?")
                    for name in ("href", "src", "action", "data-action", "data-root", "data-events"):
                        value = attributes.get(name) or "/"
                        assert value.startswith(("/", "?", "#", "data:,")), value
                        assert not value.startswith("//")


def test_requests_that_name_another_host_are_refused(view: Viewer) -> None:
    for host in ("evil.example", "evil.example:8200", "127.0.0.1.evil.example", ""):
        assert view.page("/", Host=host).status == 421
    for host in ("localhost", "127.0.0.1:1", "[::1]:8200"):
        assert view.page("/", Host=host).status == 200


def test_under_the_path_of_a_proxy_all_links_begin_with_it(view: Viewer) -> None:
    found = view.page("/r/0/items/0", X_Forwarded_Prefix="/team/rubrics/").text
    links = re.findall('(?:href|src|action)="(/[^"]*)"', found)
    assert len(links) > 10 and all(link.startswith("/team/rubrics/") for link in links)
    assert ' aria-current="page">Items</a>' in view.page("/r/0/items", X_Forwarded_Prefix="/a").text
    moved = view.page("/r/0", X_Forwarded_Prefix="/a").headers["location"]
    assert urlsplit(moved).path == "/a/r/0/"
    with offenders() as case:
        for prefix in ('/"><script>', "//evil.example", "evil", "/..//x", "/a b", "https://evil.example"):
            with case(prefix):
                assert view.page("/r/0/", X_Forwarded_Prefix=prefix).text == view.page("/r/0/").text


def test_writes_from_pages_of_others_are_refused(view: Viewer) -> None:
    own = view.url
    refused = {
        403: [
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"Sec_Fetch_Site": "cross-site"},
            {"Sec_Fetch_Site": "same-site", "Origin": own},
            {"Origin": own.replace("http:", "ftp:")},
            {"Sec_Fetch_Site": "none"},
        ],
        415: [
            {"Content_Type": "text/plain"},
            {"Content_Type": "application/x-www-form-urlencoded"},
            {"Content_Type": ""},
        ],
    }
    with offenders() as case:
        for status, headers in ((status, one) for status, several in refused.items() for one in several):
            with case(str(headers)):
                assert view.post("/r/0/label/close", {}, **headers).status == status
    assert view.post("/r/0/label/close", {}, Origin=own, Sec_Fetch_Site="same-origin").status == 200
    assert view.post("/r/0/label/close", {}).status == 200
    assert view.ask("PUT", "/r/0/label/close").status == 405
    assert view.ask("DELETE", "/r/0/").status == 405
    assert view.post("/r/0/items", {}).status == 405


def test_no_path_of_a_url_reaches_a_file(view: Viewer) -> None:
    with offenders() as case:
        for path in (
            "/static/../app.py",
            "/static/..%2f..%2fapp.py",
            "/static/%2e%2e/app.py",
            "/static//etc/passwd",
            "/etc/passwd",
            "/r/0/../../etc/passwd",
            "/r/0/items/../manifest.json",
            "/r/-1/",
            "/r/0x0/",
            "/r/99999999999999999999/",
            "/r/0/items/-1",
            "/r/0/items/99999999999999999999",
            "/r/0/items/99999999999999999999/calls",
            "/r/0/criteria/99999999999999999999",
            "/static/view.css%00.js",
            "/r/0/rubrics/..%2f..",
            "/.view/index.sqlite",
            "/manifest.json",
        ):
            with case(path):
                # The bytes of the path are sent as they are.
                found = raw(view, path)
                assert found.startswith("HTTP/1.1 404"), found[:60]


def raw(view: Viewer, path: str) -> str:
    host = urlsplit(view.url)
    with socket.create_connection((host.hostname or "", host.port or 0), timeout=600) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {host.netloc}\r\nConnection: close\r\n\r\n".encode())
        found = b""
        while part := connection.recv(65536):
            found += part
    return found.decode("utf-8", "replace")


def test_others_need_the_token(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_run(tmp_path / "run", [item(0)], [line(0, 1.0, [judged(RUBRIC[0], "MET")])])
    assert run(["view", str(folder), "--host", "0.0.0.0", "--port", "0"]) == 2
    assert "--token-env" in capsys.readouterr().err
    with viewing(folder, flags=["--token-env", "VIEW_TOKEN"], variables={"VIEW_TOKEN": "s3cret"}) as viewer:
        viewer_headers = {"Authorization": "Bearer s3cret"}
        assert viewer.page("/").status == 401
        assert viewer.page("/").headers["www-authenticate"].startswith("Basic ")
        assert viewer.page("/", Authorization="Bearer guess").status == 401
        assert viewer.page("/static/view.css").status == 401
        assert viewer.post("/r/0/label/close", {}).status == 401
        assert viewer.page("/", **viewer_headers).status == 200
        assert viewer.page("/", Authorization="Basic dXNlcjpzM2NyZXQ=").status == 200  # user:s3cret


def test_a_value_in_a_url_that_is_none_is_refused_with_its_name(view: Viewer) -> None:
    with offenders() as case:
        for query in (
            "sort=odd",
            "min=much",
            "max=nan",
            "criterion=-1",
            "criterion=1e3",
            "after=x",
            "after=1",
            "format=xml",
            f"q={'x' * 2000}",
        ):
            with case(query):
                found = view.page(f"/r/0/items?{query}")
                assert found.status == 400
                assert query.partition("=")[0] in found.text
