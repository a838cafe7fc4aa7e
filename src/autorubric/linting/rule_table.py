"""All rules, and the selection of rules to run."""

from collections.abc import Iterable, Sequence

from autorubric.errors import InputError
from autorubric.files.keys import suggest_name
from autorubric.linting.finding import Rule
from autorubric.linting.rules import comparative, duplicates, form, scales, unfinished, unseen, vague
from autorubric.linting.rules import compound_demands as compound
from autorubric.linting.rules import undecidable as verdicts

RULES: tuple[Rule, ...] = (
    vague.VAGUE_WORDS,
    comparative.COMPARATIVE,
    verdicts.CIRCULAR,
    verdicts.DECIDED,
    scales.SCALE,
    unfinished.UNFINISHED,
    compound.SEVERAL_DEMANDS,
    form.LENGTH,
    form.EMPTY_CRITERION,
    duplicates.DUPLICATE,
    duplicates.NEAR_DUPLICATE,
    unseen.UNSEEN_REFERENCE,
    form.LANGUAGE,
    form.SIGN,
    form.EQUAL_WEIGHTS,
    form.DOMINANT_WEIGHT,
    form.ZERO_WEIGHT,
    form.NO_REWARD,
    form.CRITERIA_COUNT,
    form.UNREACHABLE_OPTION,
    form.OPTION_VALUES,
    form.INVALID_CHECK,
    form.REFUSED,
)
"""Every rule, those about wording first."""


def chosen_rules(select: Iterable[str] = (), ignore: Iterable[str] = ()) -> Sequence[Rule]:
    """Return the rules to run, in their order.

    Args:
        select: ids of the rules to run; all if empty.
        ignore: ids of rules to leave out of those.

    Raises:
        InputError: with one problem for each unknown rule id, or when no rule is left.

    Example:
        >>> [rule.id for rule in chosen_rules(["length", "duplicate"], ["length"])]
        ['duplicate']
        >>> chosen_rules(["lenght"])
        Traceback (most recent call last):
        autorubric.errors.InputError: unknown rule 'lenght'; did you mean 'length'?
    """
    selected, ignored = list(select), set(ignore)
    known = [rule.id for rule in RULES]
    unknown = [name for name in dict.fromkeys([*selected, *sorted(ignored)]) if name not in known]
    problems = [f"unknown rule {name!r}; {suggest_name(name, known)}" for name in unknown]
    if problems:
        raise InputError(problems)
    rules = [rule for rule in RULES if rule.id not in ignored and (not selected or rule.id in selected)]
    if not rules:
        raise InputError("no rule is left to run: --ignore excludes every rule of --select")
    return rules
