"""A GRPO run with audit, dropout and evolution, killed in the middle and resumed, keeps its rewards and versions."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from autorubric.llm.records.ledger_view import ledger_view
from autorubric.llm.request import Message, Request
from autorubric.testing import LoopbackEndpoint, PromptSections

STEPS = 8
KILLED_AT = 35  # requests on original criteria; a step of four completions makes eight, or fewer with new criteria
ORIGINAL = ["Names a cause.", "Names an effect.", "Names a date.", "Names a place."]
PROPOSED = ["Weighs two views.", "Gives a reason.", "Warns of a danger.", "Says how sure it is."]


class Models:
    """Judges and a writer on a socket; half of all texts meet a criterion. At one request they kill the training."""

    def __init__(self) -> None:
        self.bodies: Counter[str] = Counter()
        self.originals = 0
        self.process: subprocess.Popen[bytes] | None = None

    def say(self, body: dict[str, Any]) -> str:
        """A reply by rules."""
        self.bodies[json.dumps(body, sort_keys=True)] += 1
        turns = tuple(Message(turn["role"], turn["content"]) for turn in body["messages"])
        shown = PromptSections(Request(turns, role=""))
        if body["model"] == "writer":
            made = [{"title": text, "description": text, "weight": 5, "pitfall": False} for text in PROPOSED]
            return json.dumps({"criteria": made})
        if "submission" not in shown:
            asked = {"reason": "So.", "need": "implicit", "quote": "", "surface": "none", "surface_asked": True}
            asked |= {"answerable": True, "same_as": ""}
            return json.dumps({"licences": [{"criterion_id": one[0], **asked} for one in shown.criteria]})
        if body["model"] == "judge" and shown["criterion"] in ORIGINAL:
            self.originals += 1
            if self.process is not None and self.originals == KILLED_AT:
                self.process.kill()
        number = [*ORIGINAL, *PROPOSED].index(shown["criterion"])
        met = sum(map(ord, shown["submission"][number::3])) % 2 == 0
        return json.dumps({"explanation": "So.", "criterion_status": "MET" if met else "UNMET"})


def train(folder: Path, url: str) -> subprocess.Popen[bytes]:
    script = Path(__file__).with_name("grpo_run.py")
    return subprocess.Popen([sys.executable, str(script), url, str(folder), str(STEPS), *ORIGINAL])


def observed(folder: Path, kind: str) -> list[dict[str, Any]]:
    with ledger_view(folder / "rewards") as view:
        return [value for _, value in view.list_observations(kind)]


def rewards(folder: Path) -> dict[tuple[int, str], tuple[float | None, Any, int]]:
    """Reward, values and version by step and answer. A step that is repeated has to give the same ones."""
    found: dict[tuple[int, str], tuple[float | None, Any, int]] = {}
    for row in observed(folder, "reward"):
        given = (row["reward"], row["values"], row["version"])
        assert found.setdefault((row["step"], row["answer"]), given) == given
    return found


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "rewards" / "rubric_versions.jsonl").read_bytes().splitlines()]


def first_step_of_a_version(folder: Path) -> int:
    return min(event["from_step"] for event in events(folder) if event["event"] == "version")


def test_a_killed_training_with_audit_dropout_and_evolution_resumes(tmp_path: Path) -> None:
    whole, killed, said = tmp_path / "whole", tmp_path / "killed", Models()
    with LoopbackEndpoint(replier=said.say).in_thread() as endpoint:
        assert train(whole, endpoint.base_url).wait() == 0
        said.bodies.clear()
        said.originals = 0
        said.process = train(killed, endpoint.base_url)
        assert said.process.wait() == -9
        said.process = None
        reached = max(int(found.name.partition("-")[2]) for found in killed.glob("checkpoint-*"))
        versions = events(killed)
        before = rewards(killed)
        assert train(killed, endpoint.base_url).wait() == 0
    assert 0 < reached < STEPS
    # The history goes on where it was, and the rewards that were given are given again.
    after = rewards(killed)
    assert events(killed)[: len(versions)] == versions
    assert before.items() <= after.items() and {step for step, _ in after} == set(range(STEPS))
    # Until a version begins, which is a matter of time, it is the run that was never killed.
    begins = min(map(first_step_of_a_version, (whole, killed)))
    early = [{key: one for key, one in rewards(run).items() if key[0] < begins} for run in (whole, killed)]
    assert early[0] == early[1] != {}
    # One query and step is graded by one version; there are several; half of the criteria are dropped.
    groups = defaultdict(set)
    for row in observed(killed, "reward"):
        groups[row["step"], row["group"]].add((row["version"], tuple(row["dropped"])))
        assert len(row["dropped"]) == round(len(row["values"]) / 2)
    assert all(len(found) == 1 for found in groups.values())
    assert {version for found in groups.values() for version, _ in found} > {0}
    # Audits are chosen by the reward alone, so those of the first part were made once.
    audits = Counter((row["step"], row["answer"]) for row in observed(killed, "second") if row["second"] is not None)
    assert audits and set(audits.values()) == {1} and audits.keys() <= after.keys()
    # Only what was under way at the kill is paid for twice: the calls of one step, audits and an evolution.
    twice = [body for body, count in said.bodies.items() if count > 1]
    assert len(twice) <= 16, twice
    print(
        f"{len(after)} rewards, {len(audits)} audits, {sum(e['event'] == 'version' for e in events(killed))} versions"
    )
    print(f"killed after checkpoint {reached}; {sum(said.bodies.values())} calls, {len(twice)} of them repeated")
