from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autorubric.errors import InputError
from autorubric.formats import Options, convert, read_records, wording

GOOD = [
    "Avoids jargon.",
    "The response avoids recommending antibiotics.",
    "Should avoid incomplete statements.",
    "Pitfall Criteria: Avoids confusing the two drugs.",
    "Refrains from giving a diagnosis.",
    "避免使用专业术语",
    "回答应避免给出诊断",
]
FAULT = [
    "Fails to mention the dose.",
    "Incorrectly states the dose.",
    "The response omits the warning.",
    "Penalize if no source is named.",
    "Invents a source.",
    "未能说明剂量",
    "遗漏了警告",
    "如果没有来源则扣分",
    "编造来源",
]
NEGATED = [
    "Does not mention the dose.",
    "The answer doesn't name a source.",
    "未提及剂量",
    "没有给出来源",
    "不说明剂量",
]
PLAIN = [
    "Names the dose.",
    "Advises the patient to avoid alcohol.",
    "Explains why the drug may fail to work.",
    "Emphasizes that there is a lack of evidence.",
    "Explains how omitting a dose is handled.",
    "建议患者避免饮酒",
    "说明未来的检查",
    "指出未成年人不得服用",
]


@pytest.mark.parametrize(
    ("text", "said"),
    [(text, said) for said, texts in (("good", GOOD), ("fault", FAULT), ("negated", NEGATED)) for text in texts]
    + [(text, "plain") for text in PLAIN],
)
def test_the_first_words_say_what_meeting_means(text: str, said: str) -> None:
    assert wording(text) == said


def rar(path: Path, *entries: tuple[float, str]) -> Path:
    row: dict[str, Any] = {"question": "Why?", "reference_answer": "So."}
    row["rubric"] = [{"title": "t", "description": text, "weight": weight} for weight, text in entries]
    path.write_text(json.dumps(row), encoding="utf-8")
    return path


SCIENCE = [(5, "States why."), (-2, "Avoids jargon."), (-1, "Mentions the wrong unit."), (-1, "Fails to cite.")]


def weights(path: Path) -> list[float]:
    return [one.weight for _, record in read_records(path) for one in record.criteria]


@pytest.mark.parametrize("polarity", ["as-is", "met-is-bad"])
def test_nothing_is_turned_unless_told(polarity: str, tmp_path: Path) -> None:
    source = rar(tmp_path / "rar.jsonl", *SCIENCE)
    done = convert(source, tmp_path / "out.jsonl", "healthbench", Options(polarity=polarity))
    assert weights(tmp_path / "out.jsonl") == [5, -2, -1, -1]
    assert done.polarity.contradictions == 1
    assert done.polarity.examples == [(f"{source}:1", -2.0, "Avoids jargon.")]


def test_where_met_is_good_pitfalls_become_demands_but_for_plain_faults(tmp_path: Path) -> None:
    source = rar(tmp_path / "rar.jsonl", *SCIENCE)
    done = convert(source, tmp_path / "out.jsonl", "healthbench", Options(polarity="met-is-good"))
    assert weights(tmp_path / "out.jsonl") == [5, 2, 1, -1]
    assert (done.polarity.turned, done.polarity.kept) == (2, 1)


@pytest.mark.parametrize("weight", [-1, -0.5])
def test_a_small_negative_weight_alone_is_a_pitfall_too(weight: float, tmp_path: Path) -> None:
    source = rar(tmp_path / "rar.jsonl", (1, "Fails to cite."), (weight, "Avoids jargon."), (0, "Avoids haste."))
    audit = convert(source, tmp_path / "out.jsonl", "healthbench", Options(polarity="as-is")).polarity
    assert dict(audit.counts) == {("positive", "fault"): 1, ("negative", "good"): 1, ("zero", "good"): 1}
    assert [text for _, _, text in audit.examples] == ["Fails to cite.", "Avoids jargon."]
    done = convert(source, tmp_path / "out.jsonl", "healthbench", Options(polarity="met-is-good", force=True))
    assert weights(tmp_path / "out.jsonl") == [1, -weight, 0]
    assert (done.polarity.turned, done.polarity.kept) == (1, 0)


def test_an_audit_writes_nothing(tmp_path: Path) -> None:
    source = rar(tmp_path / "rar.jsonl", *SCIENCE, (3, "Incorrectly names the unit."))
    done = convert(source, tmp_path / "out.jsonl", "healthbench", Options(polarity="audit"))
    assert not (tmp_path / "out.jsonl").exists()
    assert done.polarity.contradictions == 2
    assert done.polarity.counts["negative", "fault"] == 1


def test_a_polarity_that_is_not_known_is_refused_first(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="as-is, met-is-good, met-is-bad, audit"):
        convert(tmp_path / "not there", None, None, Options(polarity="good"))
