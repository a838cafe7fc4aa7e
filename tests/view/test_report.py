"""A report is one inert file, the same for the same run; its check finds what was changed."""

from __future__ import annotations

import base64
import errno
import html
import io
import json
import re
import shutil
from collections.abc import Callable
from contextlib import redirect_stdout
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import autorubric
from autorubric.cli.app import run
from tests.offenders import offenders
from tests.view.viewing import RUBRIC, STORED, item, judged, line, vote, write_run

CAUSE, BRIEF = RUBRIC
PAYLOADS = (
    "<script>alert(1)</script>",
    "</template><script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    "<!--<script>",
    "]]><script>alert(1)</script>",
    "<a href=javascript:alert(1)>x</a>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;script&gt;&#60;script&#62;",
    "\u202e<b>\x00\ud800\ufeff",
    "<meta http-equiv=refresh content=0;url=http://x>",
    "<base href=http://x>",
    "<form action=http://x><button>",
    "<math><mtext><table><mglyph><style><img src onerror=alert(1)>",
)


def plain_run(folder: Path, count: int = 60, shift: int = 0) -> Path:
    lines = [
        line(
            n,
            ((7 * n + shift) % 11) / 10,
            [judged(CAUSE, "MET" if (n + shift) % 3 else "UNMET", [vote("a", "MET"), vote("b", "UNMET")])],
        )
        for n in range(count)
    ]
    return write_run(folder, [item(n, "MET" if n % 2 else "UNMET") for n in range(count)], lines)


def hostile_run(folder: Path, payload: str) -> Path:
    """A run that has the payload in every text field."""
    criterion = {"name": payload, "requirement": payload, "weight": 2.0}
    ballots = [vote(payload, "MET", payload), vote("b" + payload, "UNMET", payload)]
    quotes = [{"text": payload, "start": 0, "end": 3}, {"text": payload, "start": None, "end": None}]
    option = {"selected_label": payload, "value": 0.5}
    lines = [
        line(0, 0.5, [judged(criterion, "MET", ballots, reason=payload, quotes=quotes, flags=[payload])]),
        line(1, None, [judged(criterion, None, error=f"parse: {payload}")], f"parse: {payload}", flags=[payload]),
        line(2, 0.25, [judged(criterion, None, final_multi_choice_verdict=option, escalated=True)]),
    ]
    items = [
        {
            "id": f"{n}{payload}", "submission": payload, "description": payload, "ground_truth": ["MET"],
            "ground_truth_reasons": [payload], "prompt": payload, "reference_submission": payload,
        }
        for n in range(3)
    ]  # fmt: skip
    write_run(folder, items, lines, name=payload, prompt=payload, rubric=[criterion])
    manifest = json.loads((folder / "manifest.json").read_text())
    judges = [{"judge_id": payload, "model": {"model": payload}}]
    manifest |= {"experiment_name": payload, "dataset_name": payload, "error": payload, "stand_ins": [payload]}
    manifest |= {"status": payload, "started_at": payload, "grader_config": {"judges": judges}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


class Elements(HTMLParser):
    """Names of all elements and attributes, and all addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.names: set[str] = set()
        self.addresses: set[str] = set()
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.names |= {name for name, _ in attrs}
        self.addresses |= {value or "" for name, value in attrs if name in ("href", "src", "action", "srcdoc")}

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def elements_of(text: str) -> Elements:
    read = Elements()
    read.feed(text)
    read.close()
    return read


@pytest.mark.filterwarnings("ignore:.*manifest.json cannot be read")
def test_payloads_in_every_text_field_add_no_element_attribute_or_address(tmp_path: Path) -> None:
    sound = elements_of(made(hostile_run(tmp_path / "plain", "plain words"), tmp_path / "plain"))

    spare = {"span", "title", "class"}  # hidden characters become labelled elements
    with offenders() as case:
        for number, payload in enumerate(PAYLOADS):
            with case(ascii(payload)):
                folder = tmp_path / str(number)
                found = elements_of(made(hostile_run(folder, payload), folder))
                assert found.tags <= sound.tags | spare
                assert found.names <= sound.names | spare
                assert found.addresses == sound.addresses
    assert not sound.tags & {"script", "iframe", "object", "embed", "form", "img", "base"}
    assert not {name for name in sound.names if name.startswith("on") or name == "style"}
    assert all(address.startswith(("#", "data:,")) for address in sound.addresses)


def made(folder: Path, other: Path) -> str:
    return autorubric.report(folder, against=other).text


def test_markdown_makes_no_link_tag_or_mention_of_names(tmp_path: Path) -> None:
    hostile = "@team #12 [x](http://x) ![y](http://y) <img src=x> | cell | `code` **b** http://z"
    folder = hostile_run(tmp_path / "run", hostile)
    text = autorubric.report(folder, format="md").text
    shown, comment = text.split("\n<!-- ")
    assert "team" not in comment and comment.count(">") == 1  # nothing of the run is in it
    bare = re.sub(r"`[^`\n]*`", "", shown)
    assert not re.search(r"[@#<\[*]|http", bare.replace("### ", ""))
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({row.count("|") for row in table.splitlines()}) == 1, table


def test_the_file_is_the_same_twice_from_elsewhere_and_under_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = plain_run(tmp_path / "one" / "graded")
    before = plain_run(tmp_path / "one" / "before", shift=2)
    texts = [autorubric.report(first, against=before, format=form).text for form in ("html", "md", "json")]
    again = [autorubric.report(first, against=before, format=form).text for form in ("html", "md", "json")]
    copied = Path(shutil.copytree(first, tmp_path / "another place" / "renamed"))
    monkeypatch.chdir(copied.parent)
    elsewhere = [autorubric.report("renamed", against=before, format=form).text for form in ("html", "md", "json")]
    assert texts == again == elsewhere
    assert not any(str(tmp_path) in text for text in texts)
    assert not (first / ".view").exists() and sorted(p.name for p in first.iterdir()) == [
        "dataset.json", "items.jsonl", "manifest.json",
    ]  # fmt: skip


def test_the_style_is_the_one_that_the_policy_allows(tmp_path: Path) -> None:
    text = autorubric.report(plain_run(tmp_path / "run")).text
    [style] = re.findall("<style>(.*?)</style>", text, re.DOTALL)
    digest = base64.b64encode(sha256(style.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'" in text


def test_the_numbers_are_those_counted_by_hand(tmp_path: Path) -> None:
    folder = plain_run(tmp_path / "run", 60)
    found = json.loads(autorubric.report(folder, format="json").text)
    scores = [((7 * n) % 11) / 10 for n in range(60)]
    assert found["summary"]["scores"]["mean"] == pytest.approx(sum(scores) / 60)
    agreed = sum((n % 3 > 0) == (n % 2 > 0) for n in range(60))
    assert found["summary"]["against_labels"]["value"] == pytest.approx(agreed / 60)
    worst = sorted(range(60), key=lambda n: (scores[n], n))[:50]
    assert [one["item"] for one in found["items"]] == worst
    assert found["items"][0]["verdicts"][0]["votes"] == {"a": "MET", "b": "UNMET"}
    assert sum(n for _, n in found["histogram"]) == 60


def test_the_change_is_this_run_less_the_baseline(tmp_path: Path) -> None:
    folder, before = plain_run(tmp_path / "now"), plain_run(tmp_path / "before", shift=2)
    now, then = ([((7 * n + shift) % 11) / 10 for n in range(60)] for shift in (0, 2))
    made = autorubric.report(folder, against=before, format="md")
    change = sum(now) / 60 - sum(then) / 60
    assert made.numbers["comparison"]["difference"]["value"] == pytest.approx(change)
    assert f"| Change against `before` | {change:+.3f} (95% interval " in made.text
    few = autorubric.report(plain_run(tmp_path / "few", 29), against=before)
    assert ">of 60 and 29<" in few.text and few.numbers["comparison"]["common"] == 29
    # The baseline comes first. Its means are over the items in both, too.
    assert few.numbers["comparison"]["means"] == pytest.approx([sum(then[:29]) / 29, sum(now[:29]) / 29])
    table = autorubric.report(tmp_path / "few", against=before, format="md").text
    assert "\n\nMeans over all items of each run: 60 before, 29 now.\n" in table and "Means" not in made.text


def test_items_are_the_lowest_ones_or_all(tmp_path: Path) -> None:
    folder = plain_run(tmp_path / "run", 120)
    counts = {
        chosen: len(autorubric.report(folder, items=chosen).numbers["items"])
        for chosen in ("worst:0", "worst:3", "worst:70", "all")
    }
    assert counts == {"worst:0": 0, "worst:3": 3, "worst:70": 70, "all": 120}
    text = autorubric.report(folder, items="worst:3").text
    assert "3 of 120 items with the lowest scores" in text
    assert len(re.findall('<section id="item-', text)) == 3


def test_without_texts_no_word_of_them_is_left(tmp_path: Path) -> None:
    folder = hostile_run(tmp_path / "run", "SECRET")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest |= {
        "experiment_name": "graded",
        "dataset_name": "d",
        "error": "",
        "stand_ins": [],
        "status": "completed",
    }
    (folder / "manifest.json").write_text(json.dumps({**manifest, "started_at": "", "grader_config": {}}))
    lines = (folder / "items.jsonl").read_text().replace('"name": "SECRET"', '"name": "Cause"')
    lines = lines.replace('"judge_id":"SECRET"', '"judge_id":"a"').replace('"judge_id":"bSECRET"', '"judge_id":"b"')
    lines = lines.replace('"name":"SECRET"', '"name":"Cause"').replace('"flags":["SECRET"]', '"flags":[]')
    lines = lines.replace('"selected_label":"SECRET"', '"selected_label":"often"')
    (folder / "items.jsonl").write_text(lines)
    dataset = json.loads((folder / "dataset.json").read_text())
    for number, one in enumerate(dataset["items"]):
        one["id"] = f"e{number}"
    write_run(folder, dataset["items"], lines.splitlines(), name="d", prompt="SECRET", rubric=dataset["rubric"])
    assert "SECRET" in autorubric.report(folder).text
    for form in ("html", "md", "json"):
        assert "SECRET" not in autorubric.report(folder, no_text=True, format=form).text


def changed_data(text: str) -> str:
    return re.sub(r'("mean":)0\.\d+', r"\g<1>0.99", text, count=1)


CHANGES: dict[str, Callable[[str], str]] = {
    "a number in the data": changed_data,
    "a number that is shown": lambda text: re.sub(r"<dd>0\.\d+", "<dd>0.990", text, count=1),
    "a verdict": lambda text: text.replace('<span class="verdict unmet">UNMET', '<span class="verdict met">MET', 1),
    "a bar of a chart": lambda text: re.sub(r'(<rect class="bar"[^>]*height=")[\d.]+', r"\g<1>200.0", text, count=1),
    "an item that is left out": lambda text: re.sub(
        r'<section id="item-\d+">.*?</section>\n</div>\n?</section>', "", text, count=1, flags=re.DOTALL
    ),
    "text that is put in": lambda text: text.replace("</main>", "<p>Approved.</p></main>"),
    "a style that hides": lambda text: text.replace("<style>", "<style>.tile.bad { display: none }"),
    "blanks in a submission": lambda text: text.replace("Essay 1.", "Essay  1.", 1),
    "a requirement": lambda text: text.replace("Names a cause.", "Names no cause.", 1),
}


def test_a_change_of_the_file_is_found(tmp_path: Path) -> None:
    folder, path = plain_run(tmp_path / "run"), tmp_path / "report.html"
    text = autorubric.report(folder, out=path).text
    assert autorubric.verify(path, run=folder).is_verified
    with offenders() as case:
        for name, change in CHANGES.items():
            with case(name):
                changed = change(text)
                assert changed != text
                path.write_text(changed)
                assert autorubric.verify(path, run=folder).differences


def test_the_command_names_each_number_that_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, path = plain_run(tmp_path / "run"), tmp_path / "report.json"
    assert run(["report", str(folder), "-o", str(path)]) == 0
    assert run(["verify", str(path), str(folder)]) == 0
    held = json.loads(path.read_text())
    held["summary"]["scores"]["mean"] += 0.01
    del held["items"][3]["score"]
    path.write_text(json.dumps(held))
    capsys.readouterr()
    assert run(["verify", str(path), str(folder)]) == 1
    told = capsys.readouterr().out
    assert "2 differences" in told and "summary.scores.mean: the report says 0.5" in told
    assert "verify with the one that made the report" in told
    assert "items[3].score: the report says nothing" in told
    # The run has changed instead.
    assert run(["report", str(folder), "-o", str(path), "--force"]) == 0
    lines = (folder / "items.jsonl").read_text().splitlines()
    (folder / "items.jsonl").write_text("\n".join(lines[:-1]) + "\n")
    assert run(["verify", str(path), str(folder)]) == 1


def test_a_dash_is_standard_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = plain_run(tmp_path / "run")
    capsys.readouterr()
    assert run(["report", str(folder), "-o", "-", "--format", "md"]) == 0
    assert capsys.readouterr().out.startswith("### `run`")
    assert not Path("-").exists()

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")  # as a full disk says it

    with redirect_stdout(Full()):
        assert run(["report", str(folder), "-o", "-", "--format", "md"]) == 1
    assert capsys.readouterr().err == (
        "autorubric: No space left on device; progress is saved; fix this and run the same command again\n"
    )


def test_a_report_in_markdown_is_verified_line_by_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, path = plain_run(tmp_path / "run"), tmp_path / "report.md"
    text = autorubric.report(folder, out=path, against=folder, items="worst:3").text
    found = autorubric.verify(path, run=folder, against=folder)
    assert found.is_verified and found.numbers > 5
    # 40 of 60 verdicts are MET; every second label is, so 30 agree: Wilson's interval of 1/2 is 0.377 to 0.623.
    assert "| `Cause` | 3 | 0.667 (" in text and "| 0 | 50% (38 to 62%) |" in text
    # A comment box may end lines in another way, and drop the last end of a line.
    path.write_bytes(text.rstrip().replace("\n", "\r\n").encode())
    assert autorubric.verify(path, run=folder, against=folder).is_verified
    for changed in (
        text.replace("| Score | 0.", "| Score | 1.", 1),
        text.replace("| Items done |", "| Items of mine |", 1),
        text.replace("\n\n<!--", "\n\nApproved.\n\n<!--", 1),
        re.sub(r"\n.*Failures.*", "", text),
        text.replace("\n| Items", " \n| Items", 1),
    ):
        assert changed != text
        path.write_text(changed)
        assert autorubric.verify(path, run=folder, against=folder).differences
    path.write_text(text)
    assert run(["verify", str(path), str(folder)]) == 2
    assert "pass the baseline with --against" in capsys.readouterr().err
    path.write_text(text.replace('"layout": 2', '"layout": 9'))
    assert run(["verify", str(path), str(folder), "--against", str(folder)]) == 2
    assert "it is damaged: its layout is 9, not 2" in capsys.readouterr().err
    path.write_text(re.sub(r'("autorubric": )"[^"]*"', r'\g<1>"0.0.9"', text))
    assert "made by autorubric 0.0.9" in autorubric.verify(path, run=folder, against=folder).note


def test_another_version_made_it_so_the_text_is_not_vouched_for(tmp_path: Path) -> None:
    folder, path = plain_run(tmp_path / "run"), tmp_path / "report.html"
    text = autorubric.report(folder, out=path).text
    path.write_text(re.sub(r'("autorubric":)"[^"]*"', r'\g<1>"0.0.9"', text))
    found = autorubric.verify(path, run=folder)
    assert not found.differences and not found.is_verified and "made by autorubric 0.0.9" in found.note


def broken(folder: Path, name: str) -> Path:
    folder = plain_run(folder, 3)
    path = folder / "items.jsonl"
    if name == "a torn last line":
        path.write_text(path.read_text()[:-40])
    elif name == "a damaged line":
        path.write_text(path.read_text().replace('"score": 0.7', '"score": 0.7}}', 1).replace(":0.7,", ":0.7}},", 1))
    elif name == "no results":
        path.unlink()
    elif name == "no items":
        write_run(folder, [], [])
    elif name == "no dataset":
        (folder / "dataset.json").unlink()
    elif name == "a manifest that is no JSON":
        (folder / "manifest.json").write_text("{")
    return folder


@pytest.mark.filterwarnings("ignore:.*manifest.json cannot be read")
@pytest.mark.filterwarnings("ignore:.*items.jsonl has changed since")
@pytest.mark.parametrize(
    "name",
    ["a torn last line", "a damaged line", "no results", "no items", "no dataset", "a manifest that is no JSON"],
)
def test_a_run_with_faults_is_shown_as_far_as_it_can_be_read(tmp_path: Path, name: str) -> None:
    folder = broken(tmp_path / "run", name)
    path = tmp_path / "report.html"
    autorubric.report(folder, out=path)
    assert autorubric.verify(path, run=folder).is_verified
    assert autorubric.report(folder, format="md").text.startswith("### `run`")


@pytest.mark.parametrize("name", ["grade", "grade_panel", "select"])
def test_stored_runs_are_reported_and_verified(tmp_path: Path, name: str) -> None:
    shutil.copytree(STORED / name / "run", tmp_path / "run")
    for form in ("html", "json"):
        path = tmp_path / f"report.{form}"
        made: Any = autorubric.report(tmp_path / "run", against=tmp_path / "run", out=path)
        assert made.path == path and made.text == path.read_text()
        assert autorubric.verify(path, run=tmp_path / "run", against=tmp_path / "run").is_verified


def test_sections_of_fifty_criteria_say_what_they_leave_out(tmp_path: Path) -> None:
    rubric = [{"name": f"K{n}", "weight": 1.0, "requirement": f"Requirement {n}."} for n in range(60)]
    lines = [line(n, 0.5, [judged(one, "MET") for one in rubric]) for n in range(2)]
    folder = write_run(tmp_path / "run", [item(n, *["MET"] * 60) for n in range(2)], lines, rubric=rubric)
    text = autorubric.report(folder).text
    for name in ("agreement", "criteria"):
        assert f'<section id="{name}">\n<p class="note">50 of 60 criteria</p>' in text


@pytest.mark.parametrize("name", ["synthesize_basic", "synthesize_full"])
def test_synthesis_runs_are_reported_and_verified(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "run"
    shutil.copytree(STORED / name / "run", folder)
    rows = [json.loads(line) for line in (folder / "final.jsonl").read_text().splitlines()]
    for form in ("html", "md", "json"):
        path = tmp_path / f"report.{form}"
        autorubric.report(folder, out=path)
        assert autorubric.verify(path, run=folder).is_verified
    text = (tmp_path / "report.html").read_text()
    assert all(f'<section id="rubric-{n}">' in text and f'href="#rubric-{n}"' in text for n in range(len(rows)))
    assert f"| Rubrics | {len(rows)} |" in (tmp_path / "report.md").read_text()
    held = json.loads((tmp_path / "report.json").read_text())
    assert [one["id"] for one in held["shown"]] == [str(row["id"]) for row in rows]
    criteria = [one["criteria"] for one in held["shown"]]
    assert [sum(one["outcome"] == "kept" for one in some) for some in criteria] == [
        len(row["rubrics"]) for row in rows
    ]
    texts = [row["question"][:60] for row in rows] + [one["criterion"] for row in rows for one in row["rubrics"]]
    assert all(
        html.escape(said, quote=True).replace("&#x27;", "&#39;")[:40] in text.replace("&#x27;", "&#39;")
        for said in texts
    )
    bare = autorubric.report(folder, no_text=True).text
    assert not any(html.escape(said)[:40] in bare for said in texts)
    few = autorubric.report(folder, items="worst:1").text
    assert few.count('<section id="rubric-') == 1


WRONG: dict[str, tuple[tuple[str, ...], str]] = {
    "no run": (("report", "nowhere"), "nowhere does not exist; expected a run directory"),
    "a baseline without items": (("report", "run", "--against", "made"), "this one has graded nothing"),
    "an improvement": (("report", "improved"), "graded nothing; its results are in its report.html"),
    "scores of another run": (("report", "selected"), "graded nothing; its scores are those of the run /runs/graded"),
    "a comparison of rubrics": (("report", "made", "--against", "run"), "only graded runs are compared"),
    "groups of rubrics": (("report", "made", "--by", "model"), "only graded runs have groups"),
    "items": (("report", "run", "--items", "best:3"), "expected all, or worst:N"),
    "a file that exists": (("report", "run", "-o", "report.html"), "--force to replace it"),
    "another form": (("report", "run", "-o", "report.pdf"), "the ending .pdf is not known; a report is .html"),
    "no report": (("verify", "run/items.jsonl", "run"), "it does not say how it was made"),
    "no file": (("verify", "none.html", "run"), "none.html: cannot be read"),
    "no baseline": (("verify", "report.html", "run"), "pass the baseline with --against"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    plain_run(tmp_path / "run", 3)
    shutil.copytree(STORED / "synthesize_basic" / "run", tmp_path / "made")
    shutil.copytree(STORED / "improve" / "run", tmp_path / "improved")
    (tmp_path / "selected").mkdir()
    (tmp_path / "selected/manifest.json").write_text('{"kind": "selection", "graded_run": "/runs/graded"}')
    autorubric.report("run", against="run", out="report.html")
    words, says = WRONG[name]
    assert run(list(words)) == 2
    assert says in " ".join(capsys.readouterr().err.split())
