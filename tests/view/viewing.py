"""Runs written by hand, and a view of them as a process on a real socket."""

from __future__ import annotations

import http.client
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from autorubric.runs.plan import hash_dataset
from tests.processes import announced, wait_until

ROOT = Path(__file__).parents[2]
STORED = ROOT / "tests" / "stored_runs"
RUBRIC = [
    {"name": "Cause", "weight": 3.0, "requirement": "Names a cause."},
    {"name": "Brief", "weight": 1.0, "requirement": "Is brief."},
]


def vote(judge: str, verdict: str | None, reason: str = "", **more: Any) -> dict[str, Any]:
    return {"judge_id": judge, "verdict": verdict, "reason": reason, **more}


def judged(
    criterion: Mapping[str, Any], verdict: str | None, votes: Sequence[Any] = (), **more: Any
) -> dict[str, Any]:
    """A criterion of a report, as `items.jsonl` has it."""
    reason = more.pop("reason", f"because {verdict}")
    return {
        "criterion": dict(criterion),
        "final_verdict": verdict,
        "final_reason": reason,
        "votes": list(votes),
        **more,
    }


def line(index: int, score: float | None, criteria: Sequence[Any], error: str | None = None, **report: Any) -> str:
    """A line of `items.jsonl`."""
    whole = {"report_type": "ensemble", "score": score, "error": error, "flags": [], **report}
    whole["criterion_reports"] = list(criteria)
    return json.dumps(
        {"item_idx": index, "duration_seconds": 0.5, "error": error, "report": whole}, separators=(",", ":")
    )


def write_run(folder: Path, items: Sequence[Mapping[str, Any]], lines: Sequence[str], **head: Any) -> Path:
    """A run directory: `dataset.json`, `items.jsonl` and a manifest, without a ledger."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = {"name": "tides", "prompt": "Explain the tides.", "rubric": RUBRIC, **head}
    text = json.dumps(whole, indent=2)[:-2] + ',\n  "items": ['
    parts = ("\n    " + json.dumps(item, indent=2).replace("\n", "\n    ") for item in items)
    end = "\n  ]\n}\n" if items else "]\n}\n"
    text += ",".join(parts) + end
    (folder / "dataset.json").write_text(text)
    (folder / "items.jsonl").write_text("".join(one + "\n" for one in lines))
    manifest = {
        "kind": "evaluation", "experiment_name": folder.name, "created_at": "2026-11-22T17:13:22+00:00",
        "dataset_name": "tides", "dataset_hash": hash_dataset(text[:-1].encode()),
        "total_items": len(items), "status": "completed",
        "completed_indices": list(range(len(lines))), "grader_config": {"judges": []},
    }  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def item(number: int, *labels: str, **more: Any) -> dict[str, Any]:
    """An item of `dataset.json`."""
    truth = {"ground_truth": list(labels)} if labels else {"ground_truth": None}
    return {"id": f"e{number}", "submission": f"Essay {number}.", "description": f"essay {number}", **truth, **more}


class Answer(NamedTuple):
    """An answer of the view."""

    status: int
    text: str
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class Viewer(NamedTuple):
    """A view that runs."""

    url: str
    process: subprocess.Popen[str]

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        """The answer to one request; underscores in names of headers stand for dashes."""
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=600)
        try:
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, given)
            found = connection.getresponse()
            text = found.read().decode("utf-8")
            return Answer(found.status, text, {name.lower(): value for name, value in found.getheaders()})
        finally:
            connection.close()

    def page(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, None, **headers)

    def data(self, path: str) -> Any:
        """The data of a page, from its JSON form; status 200."""
        found = self.page(f"{path}{'&' if '?' in path else '?'}format=json")
        assert found.status == 200, found.text
        return found.json

    def post(self, path: str, body: Any, **headers: str) -> Answer:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.ask("POST", path, data, **{"Content_Type": "application/json", **headers})

    def _is_indexed(self, run: int) -> bool:
        found = self.page(f"/r/{run}/items?format=json")
        if found.status == 403:  # closed until labelling ends, even after a restart
            return self.page(f"/r/{run}/label").status == 200
        return bool(found.status == 200 and found.json["index"]["share"] >= 1 and found.json["index"]["size"])

    def indexed(self, *runs: int) -> Viewer:
        """The view, once the results of some runs are read."""
        for run in runs or (0,):
            wait_until(partial(self._is_indexed, run), f"the results of run {run} are not read")
        return self


@contextmanager
def viewing(*runs: Path, flags: Sequence[str] = (), variables: Mapping[str, str] | None = None) -> Iterator[Viewer]:
    """The process of a view; it is killed at the end if it still runs."""
    with announced(
        ["view", *map(str, runs), *flags], "stop with Ctrl-C or SIGTERM; view at ", **(variables or {})
    ) as (process, url):
        yield Viewer(url, process)
