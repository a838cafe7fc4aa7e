"""Labelling in `autorubric view`: how long until a label is on disk and the next pair is there, and in a browser."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.record import Record
from benchmarks.view_speed import write_run

ITEMS, LABELS = 10_000, 300


MOST_DISK, MOST_PAINTED = 60.0, 200.0
"""Guards, in ms at the 95th percentile: twice the goals, for a busy machine."""


def run() -> Record:
    """How long a label takes, against a write and an fsync; and the next pair in a browser."""
    record = Record(f"{ITEMS:,} items × 10 criteria, {LABELS} labels; floor: write 400 bytes and fsync")
    with tempfile.TemporaryDirectory() as folder:
        made = write_run(Path(folder) / "run", ITEMS)
        floor = _commits(Path(folder) / "floor")
        with _view(made) as url:
            drawing, answers = _labelled(url)
        rows: list[list[object]] = [["write and fsync (floor)", *_shown(floor), "–"]]
        rows.append(["label on disk, next pair answered", *_shown(answers), 30])
        record.limit("label on disk, p95 in ms", _p95(answers), most=MOST_DISK)
        record.figure("first_batch", f"{drawing:.1f} s")
        with _view(made) as url:
            painted = _in_a_browser(url)
        if painted:
            rows.append(["key pressed, next pair painted", *_shown(painted), 100])
            record.limit("next pair painted, p95 in ms", _p95(painted), most=MOST_PAINTED)
    record.table("labels", ["", "median ms", "p95 ms", "goal (p95)"], rows)
    return record


def _shown(times: Sequence[float]) -> tuple[str, str]:
    return f"{_median(times):.1f}", f"{_p95(times):.1f}"


def _p95(times: Sequence[float]) -> float:
    return 1000 * sorted(times)[int(0.95 * len(times)) - 1]


def _median(times: Sequence[float]) -> float:
    return 1000 * statistics.median(times)


def _commits(path: Path) -> list[float]:
    """Seconds of each write that is on disk when it returns."""
    times = []
    with path.open("wb") as file:
        for _ in range(LABELS):
            started = time.perf_counter()
            file.write(b"x" * 400)
            file.flush()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - started)
    return times


@contextmanager
def _view(run: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "autorubric", "view", str(run), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1].rstrip("/")
            with closing(_connection(url)) as connection:
                while _asked(connection, "GET", "/r/0/items?format=json")["index"]["share"] < 1:
                    time.sleep(0.2)
                _post(connection, "open", {"policy": "random", "size": 500})
            yield url
        finally:
            process.terminate()


def _connection(url: str) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)


def _asked(connection: http.client.HTTPConnection, method: str, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body)
    connection.request(method, path, data, {"content-type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status == 503 and method == "GET":
        return {"index": {"share": 0}}
    if answer.status != 200:
        raise RuntimeError(f"{path}: {answer.status} {text!r}")
    return json.loads(text)


def _post(connection: http.client.HTTPConnection, action: str, body: Any) -> Any:
    return _asked(connection, "POST", f"/r/0/label/{action}", body)


def _labelled(url: str) -> tuple[float, list[float]]:
    """Seconds until the first pair, and of each answer to a label."""
    times = []
    with closing(_connection(url)) as connection:
        opened = time.perf_counter()
        task = _post(connection, "next", {"annotator": "ana"})["task"]
        drawing = time.perf_counter() - opened
        for number in range(LABELS):
            verdict = "MET" if number % 2 else "UNMET"
            label = {"annotator": "ana", "index": task["index"], "place": task["place"], "verdict": verdict}
            started = time.perf_counter()
            task = _post(connection, "label", label)["task"]
            times.append(time.perf_counter() - started)
    return drawing, times


# Presses a key as a person does, and waits until the next pair is painted.
_PRESS = """key => new Promise(done => {
  const started = performance.now();
  const watch = new MutationObserver(() => { watch.disconnect(); requestAnimationFrame(() => setTimeout(
    () => done(performance.now() - started))); });
  watch.observe(document.querySelector('[data-part=choices]'), { childList: true });
  document.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
})"""


def _in_a_browser(url: str) -> list[float]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("next pair painted: not measured, Playwright is not installed (make test-browser installs it)")
        return []
    path = shutil.which("chromium")
    if path is None:
        print("next pair painted: not measured, there is no chromium")
        return []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, chromium_sandbox=False, args=["--disable-gpu"])
        page = browser.new_page()
        page.goto(f"{url}/r/0/label?annotator=ben")
        page.wait_for_selector("#labels:not([hidden])")
        times = [page.evaluate(_PRESS, "123"[n % 3]) / 1000 for n in range(100)]
        browser.close()
    return times


if __name__ == "__main__":
    run()
