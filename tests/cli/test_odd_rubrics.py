"""Rubrics that are in another language, too long, or without weights: reported or refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autorubric import Criterion, Rubric, RubricDataset
from autorubric.cli.app import run
from autorubric.synthesis.final_files import export_final, export_row
from autorubric.synthesis.steps import read_rows
from autorubric.testing import LoopbackEndpoint

ENGLISH = "Why is the sky blue, and what is the reason for it?"
CHINESE = "成年人每天最多可以服用多少对乙酰氨基酚？请说明理由。"


def test_synthesis_reports_a_rubric_in_another_language_than_its_query(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"question": text, "id": name} for name, text in (("zh", CHINESE), ("en", ENGLISH))]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    # The endpoint writes English whatever the language of the query.
    with LoopbackEndpoint().in_thread() as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "key")
        command = ["synthesize", str(tmp_path / "q.jsonl"), "--id-column", "id", "--models", "openai/m"]
        assert run([*command, "--out", str(tmp_path / "out")]) == 0
    told = capsys.readouterr().out
    assert "1 rubric is not in the language of its query ('zh')" in told
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["counts"]["remarks"] == ["1 rubric is not in the language of its query ('zh')"]


def test_an_export_reports_long_rubrics_and_those_without_points(tmp_path: Path) -> None:
    def row(name: str, count: int, weight: int = 5) -> str:
        items = [
            {"title": f"{n}", "description": f"Names cause number {n} of it.", "weight": weight} for n in range(count)
        ]
        return json.dumps({"question": ENGLISH, "id": name, "merged_rubrics": items, "augmented_rubrics": []}) + "\n"

    rows = [row("fits", 25), *(row(f"long{n}", 26) for n in range(4)), row("flat", 3, weight=0)]
    (tmp_path / "step4_augmented.jsonl").write_text("".join(rows))
    exported = export_final(tmp_path, map(export_row, read_rows(tmp_path / "step4_augmented.jsonl")))
    assert exported.rows == 5
    assert exported.remarks == (
        "4 rubrics have more than 25 criteria ('long0', 'long1', 'long2' and 1 more)",
        "1 rubric has no criterion with positive points; left out of the final files ('flat')",
    )


def test_an_empty_rubric_file_is_called_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rubric, answer = tmp_path / "rubric.yaml", tmp_path / "a.txt"
    rubric.write_text("")
    answer.write_text("Yes.")
    words = ["--rubric", str(rubric), "--judge", "builtin/offline", "-o", str(tmp_path / "run")]
    assert run(["grade", str(answer), *words]) == 2
    assert f"{rubric}: the list of criteria is empty" in capsys.readouterr().err.replace("\n", " ")
    assert run(["lint", str(rubric)]) == 2
    assert f"{rubric}: the list of criteria is empty" in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.parametrize("own", [False, True])
def test_grading_by_weights_of_zero_alone_is_refused_before_a_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], own: bool
) -> None:
    flat = Rubric([Criterion(weight=0, requirement="Is kind."), Criterion(weight=0, requirement="Is brief.")])
    fine = Rubric([Criterion(weight=0, requirement="Is kind."), Criterion(weight=2, requirement="Is brief.")])
    made = RubricDataset("Why?", fine if own else flat)
    made.add_item("So.", "")
    made.add_item("So it is.", "", rubric=flat if own else None)
    made.to_file(tmp_path / "d.json")
    with LoopbackEndpoint().in_thread() as endpoint:
        command = [
            "grade",
            str(tmp_path / "d.json"),
            "--judge",
            f"m@{endpoint.base_url}",
            "-o",
            str(tmp_path / "run"),
        ]
        assert run(command) == 2
        assert endpoint.counts.requests == 0
    place = "d.json: item 1: " if own else "d.json: "
    told = capsys.readouterr().err
    assert f"{place}every criterion has weight 0, so no score can be computed" in told
    assert not (tmp_path / "run").exists()
    # From Python the score is 0.0, as the dataset's own rule says.
    assert RubricDataset("Why?", flat).compute_weighted_score(["MET", "MET"]) == 0.0
