"""Domain profiles: their settings under those set by hand, their words behind those of the package."""

from __future__ import annotations

from pathlib import Path

import pytest

from autorubric.errors import ConfigError
from autorubric.prompts import load_prompts, package_prompts
from autorubric.synthesis.synthesis_settings import SynthesisSettings
from autorubric.synthesis.templates import DOMAINS, add_domain, merge_domain
from tests.offenders import each

GOLDEN = Path(__file__).parents[2] / "prompts" / "golden"
MODELS = {
    **dict.fromkeys(("reference", "merge", "augment"), "a/m"),
    **{name: ["a/m", "a/n"] for name in ("responses", "rubrics", "judges")},
}
FILES = {"input": "q.jsonl", "out": "out", "profile": "full", "roles": MODELS}


def has_han(text: str) -> bool:
    return any("\u4e00" <= char <= "\u9fff" for char in text)


@each("name", DOMAINS)
def test_what_a_domain_adds_to_the_prompts_shows_in_review(name: str) -> None:
    prompts, plain = add_domain(package_prompts(), name), package_prompts()
    shown = []
    for prompt in ("rubric", "pitfalls"):
        rules = set[str]()
        for chinese in (False, True):
            values: dict[str, object] = {"query": "q", "reference": "r", "chinese": chinese}
            system = getattr(prompts, prompt).render(**values)[0][1]
            base, _, example = getattr(plain, prompt).render(**values)[0][1].partition("The form, shown on")
            assert system.startswith(base)
            # The examples of the domain replace the general ones.
            assert example.strip() not in system
            assert has_han(system) is chinese
            rules.add(base)
            shown.append(f"=== {prompt}, {'Chinese' if chinese else 'English'} ===\n{system[len(base) :].strip()}\n")
        assert len(rules) == 1
    golden = GOLDEN / f"domain_{name}.txt"
    if not golden.exists():
        golden.write_text("".join(shown), encoding="utf-8")
        pytest.fail(f"{golden.name} was not there and has been written; look at it and run the test again")
    assert "".join(shown) == golden.read_text(encoding="utf-8")


@each("name", DOMAINS)
def test_the_settings_of_every_domain_are_valid(name: str) -> None:
    assert SynthesisSettings.from_values({**FILES, "domain": name}).domain == name


def test_what_is_set_by_hand_stays() -> None:
    by_hand = {**FILES, "domain": "medical", "full": {"gates": {"licence_draws": 1}, "rounds": 2}}
    settings = SynthesisSettings.from_values(by_hand)
    assert (settings.full_profile.gates.licence_draws, settings.full_profile.rounds) == (1, 2)
    assert SynthesisSettings.from_values({**FILES, "domain": "medical"}).full_profile.gates.licence_draws == 7
    assert SynthesisSettings.from_values({**FILES, "domain": "instruction_following"}).full_profile.pitfalls == "off"


def test_a_users_own_template_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "rubric.jinja").write_text("Mine: {{ query }}")
    prompts = load_prompts(tmp_path)
    assert add_domain(prompts, "medical").rubric is prompts.rubric


def test_a_domain_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(ConfigError, match="expected one of medical, science"):
        merge_domain({"domain": "law"})
