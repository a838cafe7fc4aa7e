"""Damage of `items.jsonl` that leaves it readable is told where verdicts are read, and the same command mends it."""

from __future__ import annotations

import json
import warnings
from functools import partial
from pathlib import Path

import pytest

import autorubric
from autorubric import EvalResult
from autorubric.cli.app import run
from autorubric.runs.items_file import read_run
from autorubric.view.sources import open_sources
from tests.cli.in_process import NearEndpoint
from tests.processes import wait_until
from tests.view.viewing import viewing

ESSAYS = Path(__file__).parents[2] / "examples" / "essays.json"
TOLD = "items.jsonl has changed since the run wrote it"


def graded(folder: Path, url: str, *more: str) -> list[str]:
    return ["grade", str(ESSAYS), "--judge", f"judge@{url}", "-o", str(folder / "run"), *more]


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("more", [(), ("--processes", "2")])
def test_a_verdict_that_was_flipped_is_told_until_the_run_is_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...]
) -> None:
    path = tmp_path / "run" / "items.jsonl"

    def told() -> list[int]:
        counts = []
        for command, *rest in (["agree"], ["report", "--force", "-o", str(tmp_path / "page.html")]):
            capsys.readouterr()
            assert run([command, str(tmp_path / "run"), *rest]) == 0
            counts.append(capsys.readouterr().err.count(TOLD))
        return counts

    with NearEndpoint() as endpoint:
        words = graded(tmp_path, endpoint.base_url, *more)
        assert run(words) == 0
        asked, met = endpoint.stats()["requests"], path.read_bytes().count(b'"MET"')
        assert told() == [0, 0]
        path.write_bytes(path.read_bytes().replace(b'"MET"', b'"UNMET"', 1))
        assert told() == [1, 1]
        assert run(words) == 0
        assert path.read_bytes().count(b'"MET"') == met
        assert told() == [0, 0]
        assert endpoint.stats()["requests"] == asked


def test_lines_that_are_missing_are_counted_with_and_without_a_digest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    with NearEndpoint() as endpoint:
        words = graded(tmp_path, endpoint.base_url)
        assert run(words) == 0
        items, manifest = out / "items.jsonl", out / "manifest.json"
        items.write_bytes(b"".join(items.read_bytes().splitlines(keepends=True)[:-1]))
        for key in ("items_digest", "other"):
            manifest.write_text(manifest.read_text(encoding="utf-8").replace("items_digest", key), encoding="utf-8")
            capsys.readouterr()
            assert run(["agree", str(out)]) == 0
            assert f"{TOLD} (1 item is missing)" in capsys.readouterr().err, key
        assert run(words) == 0
        capsys.readouterr()
        assert run(["agree", str(out)]) == 0
        assert TOLD not in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:.*(run the same command|grade into the run directory) again")
def test_the_pages_and_reports_of_a_run_tell_that_its_files_have_changed_meanwhile(tmp_path: Path) -> None:
    with NearEndpoint() as endpoint:
        assert run(graded(tmp_path, endpoint.base_url)) == 0
    cases = (
        ("items.jsonl", b'"MET"', b'"UNMET"', f"{TOLD}, so its verdicts may be wrong"),
        ("dataset.json", b'"weight": ', b'"weight": 1', "dataset.json has changed since the run wrote it"),
        ("dataset.json", b"", None, "dataset.json is missing, so its texts, weights and labels are unknown"),
        ("manifest.json", b"{", b"", "manifest.json cannot be read, so the kind, the status and the settings"),
    )
    with viewing(tmp_path / "run") as view:

        def says(page: str, words: str, count: int) -> bool:
            return view.page(page).text.count(words) == count

        view.indexed()
        for name, old, new, words in cases:
            path = tmp_path / "run" / name
            whole = path.read_bytes()
            for content, count in ((None if new is None else whole.replace(old, new, 1), 1), (whole, 0)):
                if content is None:
                    path.unlink()
                else:
                    path.write_bytes(content)
                for page in ("/r/0/", "/r/0/items", "/r/0/criteria"):
                    wait_until(partial(says, page, words, count), f"{page} does not say {words!r} {count} times")
                for form in ("html", "md", "json"):
                    made = autorubric.report(tmp_path / "run", format=form, out=tmp_path / form, force=True)
                    assert (form, made.text.count(words)) == (form, count * (1 + (form == "html")))
                    assert autorubric.verify(tmp_path / form, run=tmp_path / "run").is_verified


def test_a_weight_that_was_flipped_is_told_until_the_run_is_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run" / "dataset.json"
    told = "dataset.json has changed since the run wrote it, so its texts, weights and labels may be wrong"

    def agreed() -> tuple[str, bool]:
        capsys.readouterr()
        assert run(["agree", str(tmp_path / "run")]) == 0
        said = capsys.readouterr()
        return said.out, told in said.err

    with NearEndpoint() as endpoint:
        words = graded(tmp_path, endpoint.base_url)
        assert run(words) == 0
        asked, whole, before = endpoint.stats()["requests"], path.read_bytes(), agreed()
        spoiled = whole.replace(b'"weight": ', b'"weight": 1', 1)
        assert spoiled != whole
        path.write_bytes(spoiled)
        after = agreed()
        assert (before[1], after[1]) == (False, True)
        manifest = path.with_name("manifest.json")
        ended = manifest.read_text()
        manifest.write_text(ended.replace('"status": "completed"', '"status": "running"'))  # as a kill leaves it
        assert agreed()[1]
        manifest.write_text(ended)
        assert run(["report", str(tmp_path / "run"), "-o", str(tmp_path / "page.html")]) == 0
        assert capsys.readouterr().err.count(told) == 1
        assert after[0] != before[0]
        assert run(words) == 0
        assert path.read_bytes() == whole
        assert agreed() == before
        assert endpoint.stats()["requests"] == asked


def test_a_run_in_progress_and_one_of_an_earlier_version_are_read_without_a_word(tmp_path: Path) -> None:
    with NearEndpoint() as endpoint:
        assert run(graded(tmp_path, endpoint.base_url)) == 0
    manifest = tmp_path / "run" / "manifest.json"
    whole = manifest.read_text(encoding="utf-8")
    (tmp_path / "run" / "items.jsonl").write_bytes((tmp_path / "run" / "items.jsonl").read_bytes() + b"\n")

    def told() -> list[str]:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            EvalResult.from_experiment(tmp_path / "run")
            list(read_run(tmp_path / "run").item_results)
            open_sources([tmp_path / "run"])[0].check()
        return [str(one.message) for one in found]

    assert [TOLD in message for message in told()] == [True] * 3
    for line in (line for line in whole.splitlines() if "items_digest" in line):
        manifest.write_text(whole.replace(line, line.replace("items_digest", "other")), encoding="utf-8")
    assert told() == []


def test_a_changed_verdict_that_a_stopped_run_keeps_is_told_until_it_is_reached(tmp_path: Path) -> None:
    rubric = {"prompt": "Why?", "rubric": [{"name": "Short", "requirement": "Is brief."}]}
    rows = [{"id": f"r{n}", "description": "", "submission": f"Text {n}."} for n in range(4)]
    data, folder = tmp_path / "d.json", tmp_path / "run"

    def told() -> int:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            EvalResult.from_experiment(folder)
        return sum(TOLD in str(one.message) for one in found)

    with NearEndpoint() as endpoint:
        words = ["grade", str(data), "--judge", f"judge@{endpoint.base_url}", "-o", str(folder), "-j", "1"]
        data.write_text(json.dumps({**rubric, "items": rows}))
        assert run(words) == 0
        path = folder / "items.jsonl"
        path.write_bytes(path.read_bytes().replace(b'"final_verdict":"MET"', b'"final_verdict":"UNMET"', 1))
        front = [{"id": f"f{n}", "description": "", "submission": f"Front {n}."} for n in range(3)]
        data.write_text(json.dumps({**rubric, "items": [*front, *rows]}))
        assert run([*words, "--budget-tokens", "1"]) == 1
        assert path.read_bytes().count(b'"final_verdict":"UNMET"') == told() == 1
        assert run(words) == 0
        assert path.read_bytes().count(b'"final_verdict":"UNMET"') == told() == 0
