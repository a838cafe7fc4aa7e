"""Judges that an installed package registers as entry points."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.processes import finish_with_packages

KEYWORD = """
from autorubric.core.judgment import CriterionVerdict, Judgment

class Keyword:
    def __init__(self, model, judge_id, weight, *, options):
        self.judge_ids, self.weight = (judge_id,), weight

    async def judge(self, inputs, wanted, ask):
        return [
            Judgment(
                self.judge_ids[0],
                verdict=CriterionVerdict.MET
                if inputs.criteria[index].requirement in inputs.submission
                else CriterionVerdict.UNMET,
                weight=self.weight,
            )
            for index in wanted
        ]
"""

WITHOUT_COPY = """
from dataclasses import replace
from autorubric.graders.criterion_judge import CriterionJudge

class Keyword(CriterionJudge):
    async def judge(self, inputs, wanted, ask):
        return await CriterionJudge.judge(self, replace(inputs, copies=()), wanted, ask)
"""
TEXTS = ("It is blue.", "It is red.")


def words_of_grade(folder: Path, source: str, calls: str, texts: Sequence[str] = TEXTS) -> list[str]:
    """The command that grades texts; in `site` is a package that registers the judge `keyword`."""
    site = folder / "site"
    info = site / "keyword_judge-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "keyword_judge.py").write_text(source, encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: keyword-judge\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[autorubric.judges]\nkeyword = keyword_judge:Keyword\n", encoding="utf-8")
    rubric = [{"name": "blue", "requirement": "blue"}]
    items = [{"submission": text, "description": text} for text in texts]
    data = {"prompt": "Which colour has the sky?", "rubric": rubric, "items": items}
    (folder / "data.json").write_text(json.dumps(data), encoding="utf-8")
    return ["grade", "data.json", "-o", "run", "--judge", "builtin/offline", "--calls", calls]


def test_an_installed_judge_grades_in_the_command_and_is_named_in_the_manifest(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "autorubric", *words_of_grade(tmp_path, KEYWORD, "keyword")]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    lines = (tmp_path / "run" / "items.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["report"]["score"] for line in lines] == [1.0, 0.0]
    assert '"llm_calls": "keyword"' in (tmp_path / "run" / "manifest.json").read_text(encoding="utf-8")


def test_an_installed_judge_that_does_not_number_equal_items_gets_a_reply_for_each(tmp_path: Path) -> None:
    words = words_of_grade(tmp_path, WITHOUT_COPY, "keyword", ["It is blue."] * 3)
    ended = finish_with_packages(tmp_path / "site", words, tmp_path, os.environ)
    assert ended.returncode == 0, ended.stderr
    assert "judge builtin/offline: 3 calls, " in ended.stdout


@pytest.mark.parametrize(
    ("source", "calls", "message"),
    [
        (KEYWORD, "keywords", "'keywords' is unknown; did you mean 'keyword'?"),
        ("import nowhere", "keyword", "No module named 'nowhere'"),
        ("Keyword = 3", "keyword", "in group 'autorubric.judges' is a int; expected a class"),
    ],
)
def test_a_judge_that_cannot_be_used_is_refused_before_anything_is_asked(
    tmp_path: Path, source: str, calls: str, message: str
) -> None:
    words = words_of_grade(tmp_path, source, calls)
    ended = finish_with_packages(tmp_path / "site", words, tmp_path, os.environ)
    assert ended.returncode == 2, ended.stderr
    assert message in " ".join(ended.stderr.replace("│", " ").split())
    assert not (tmp_path / "run").exists()
