"""All prompts of the full method: those of the package, or a user's folder laid over them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from autorubric.errors import ConfigError
from autorubric.prompts import PromptSet, load_prompts, package_prompts
from autorubric.prompts.gating import GatePrompts, load_gate_prompts, package_gate_prompts
from autorubric.prompts.judging import JudgePrompts, load_judge_prompts, package_judge_prompts
from autorubric.prompts.template import PACKAGED


@dataclass(frozen=True, slots=True)
class FullPrompts:
    """The prompts of one run of the full method.

    Attributes:
        drafts: of responses, rubrics, pitfalls, merge and evolution.
        judges: of the judges that grade the pool.
        gates: of licences and rewrites.
    """

    drafts: PromptSet
    judges: JudgePrompts
    gates: GatePrompts

    def fingerprints(self) -> dict[str, str]:
        """The fingerprint of every prompt by its name, for manifests."""
        judges = {f"judge_{name}": mark for name, mark in self.judges.fingerprints().items()}
        return {**self.drafts.fingerprints(), **judges, **self.gates.fingerprints()}


@cache
def package_full_prompts() -> FullPrompts:
    """The prompts that come with the package.

    Example:
        >>> sorted(package_full_prompts().fingerprints())[:4]
        ['augment', 'judge_binary', 'judge_choice', 'judge_reask']
    """
    return FullPrompts(package_prompts(), package_judge_prompts(), package_gate_prompts())


def load_full_prompts(directory: Path) -> FullPrompts:
    """The package's prompts with those of a folder in their place.

    The folder holds the drafts' templates; those of the judges stand in its subfolder `judges`, those of
    licences and rewrites in `gates`. Each of the three may be missing.

    Raises:
        InputError: none of the three is there, or files in them are unknown or wrong.
        ConfigError: there is a template for the basic method's merge, which this one does not use.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "reference.txt").write_text("Answer this: <<query>>")
        >>> load_full_prompts(folder).drafts.reference.origin.endswith("reference.txt")
        True
    """
    judges, gates = directory / "judges", directory / "gates"
    alone = any(path.is_file() and not path.name.startswith(".") for path in directory.glob("*"))
    drafts = package_prompts()
    if alone or not (judges.is_dir() or gates.is_dir()):
        drafts = load_prompts(directory)
    if drafts.merge.origin != PACKAGED:
        raise ConfigError(
            f"{drafts.merge.origin}: the full method merges with merge_sets.jinja; put it there instead"
        )
    return FullPrompts(
        drafts,
        load_judge_prompts(judges) if judges.is_dir() else package_judge_prompts(),
        load_gate_prompts(gates) if gates.is_dir() else package_gate_prompts(),
    )
