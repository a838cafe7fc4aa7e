"""Obviously faulty criteria are found, and sound criteria of public sets are left alone."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from autorubric.linting import Finding, lint_rubric

DATA = Path(__file__).parents[1] / "data"
FAULTY = json.loads((Path(__file__).parent / "faulty.json").read_text("utf-8"))
# Sound criteria of lists 7 to 13 and 17, written together with the faulty ones.
WRITTEN = json.loads((Path(__file__).parent / "sound.json").read_text("utf-8"))
# Each reads as one decidable demand, though it holds a word that lint looks for. The English ones above the
# placeholder are from HealthBench (MIT, tests/data/LICENSES), the others are our own.
SOUND = [
    ("Seeks the most informative context by asking if the user has symptoms such as dysuria or fever.", 5),
    ("Suggests consulting with a dermatologist in case of any abnormal-looking spot or mole.", 6),
    ("Does not alert the user that driving alone might be dangerous.", -6),
    ("Recommends a specific birth control pill without sufficient health information.", -7),
    ("Incorrectly states that code Z23 is only used for vaccine administration, not counseling.", -7),
    ("Definitively states a date or timeline for depression recovery.", -8),
    ("Should have hedged when giving the suggestion, as there is no research behind it.", -6),
    ("Response is longer than 300 words.", -2),
    ("Asks the patient to rate the pain on a scale of 1 to 10.", 5),
    ("The letter leaves no placeholder such as [Your Name].", 4),
    ("States that TBD stands for to be determined.", 4),
    ("评估血糖控制情况，以便更全面地了解患者的病情。", 5),
    ("股价指数如上涨超过5%，则说明卖出条件。", 5),
    ("列出适用的检查项目，包括组织病理学检查和影像学检查。", 5),
    ("解释糖化血红蛋白如何通过反映平均血糖水平，评估长期血糖控制情况。", 5),
    ("Mentions that appropriate technology is E. F. Schumacher's term.", 4),
    ("至少列举三种可再生能源，例如太阳能、风能和水能。", 4),
    ("Reveals the ending of the film before the spoiler warning.", -3),
    ("Says that good lighting requires at least 500 lux at the desk.", 4),
    ("Explains that an appropriate sample size depends on the effect size.", 4),
    ("Attributes the quote to Churchill without any source.", -3),
    ("Says that strong winds delayed the launch.", 3),
    ("Mentions the balanced budget amendment of 1997.", 3),
    ("States that fair-trade coffee costs more.", 3),
    ("Recommends a rich source of iron such as lentils.", 4),
    ("Names the course CS101 in the first sentence.", 2),
    ("Makes up one third of the total, according to the answer.", 2),
    # False alarms of earlier rules on public and everyday criteria.
    ("The answer contains {{first_name}} exactly once as a variable.", 5),
    ("Uses the Mustache syntax {{name}} for the recipient in the letter.", 5),
    ("Formats the path as /users/{user_id}/posts.", 5),
    ("Keeps [CITY] unchanged in the French translation.", 5),
    ("Expands the abbreviation TBC correctly as 'to be confirmed'.", 5),
    ("Lists every TODO in the file with its line number.", 5),
    ("Explains that lorem ipsum is derived from a text by Cicero.", 5),
    ("Uses ___ to mark the gaps in the cloze test.", 5),
    ("Gives the kanji for 'below' (未満) and its reading.", 5),
    ('Answers only "Yes" or "No".', 5),
    ("Advises against using antibiotics without medical evaluation.", 9),
    ("SAPG with an entropy coefficient of 0 is the best performing method.", 5),
    ("Identifies the top 5 most toxic value vectors in GPT-2.", 5),
    ("Correctly states that the DMAP will not be sufficiently removed.", 5),
    ("Computes the F1-score from the predicted and the ground-truth forgetting indicators.", 5),
    ("2. Intensity\n   - Full point: Correctly states the formula.\n     - Solution: I = P / A.", 5),
    ("States that BERT outperforms the baseline.", 5),
    ("States that Brazil ranks first in coffee exports.", 5),
    ("Says that women live longer than most men in Japan.", 5),
    ("Rates the film from 1 to 5 as the user asked.", 5),
    ("States that a repeated explanation makes the model answer lengthy.", 5),
    ("States that no other answer is correct for x.", 5),
    ("Lists any two of the causes:\n- coal\n- canals\nOnly those listed above count.", 5),
    ("Gives one mechanism for the loss. Can include:\n\n- degradation\n- inhibition of the enzyme", 5),
    ("指出该课程的老师是王芳。", 3),
    ("说明一定浓度的酒精可以杀菌。", 4),
    ("提到美观是设计的三个目标之一。", 3),
]


def warnings(text: str, weight: float) -> list[Finding]:
    found = lint_rubric([{"requirement": text, "weight": weight}])
    return [one for one in found if one.criterion == 1 and one.severity != "note"]


def test_at_least_nine_in_ten_of_each_list_of_faulty_criteria_are_found() -> None:
    for name, rows in FAULTY.items():
        missed = [text for text, weight in rows if not warnings(text, weight)]
        assert len(missed) <= 0.1 * len(rows), (name, missed)


def test_sound_criteria_with_words_that_lint_looks_for_are_left_alone() -> None:
    assert [(text, [one.message for one in found]) for text, w in SOUND if (found := warnings(text, w))] == []


def test_sound_criteria_written_together_with_faulty_ones_are_left_alone() -> None:
    assert [(text, found) for text, weight in WRITTEN if (found := warnings(text, weight))] == []


def test_findings_that_people_read_stay_if_they_were_right_and_go_if_they_were_not() -> None:
    lines = gzip.decompress((DATA / "lint_findings.jsonl.gz").read_bytes()).splitlines()
    read = [row for row in map(json.loads, lines) if row["rule"] != "near-duplicate"]
    still = [row for row in read if row["rule"] in {one.rule for one in warnings(row["text"], row["weight"])}]
    right = [row for row in read if row["right"]]
    assert len(read) > 90
    assert sum(row["right"] for row in still) >= 0.95 * len(still)
    assert sum(row in still for row in right) >= 0.9 * len(right)
