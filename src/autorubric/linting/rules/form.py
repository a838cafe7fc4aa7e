"""Rules about the form of a rubric: counts, length, language, weights, options, checks."""

from collections import Counter
from collections.abc import Callable, Iterator

from autorubric.core.criterion import find_check_problems
from autorubric.core.sign_wording import find_contradiction
from autorubric.errors import collected, pluralize
from autorubric.linting.criterion_words import detect_language
from autorubric.linting.finding import Hit, RawCriterion, RawRubric, Rule
from autorubric.linting.rules.undecidable import find_forced_verdict

FEWEST, MOST = 3, 25


def _check_count(rubric: RawRubric) -> Iterator[Hit]:
    count = len(rubric.criteria)
    if not FEWEST <= count <= MOST:
        noun = "criterion" if count == 1 else "criteria"
        advice = "Add what is missing, including implicit needs" if count < FEWEST else "Keep the most important ones"
        yield Hit(None, f"{count} {noun}; expected {FEWEST} to {MOST}", advice)


def _apply(find: Callable[[RawCriterion], tuple[str, str] | None]) -> Callable[[RawRubric], Iterator[Hit]]:
    """Return a function that applies a rule to each criterion; `find` returns the problem and how to fix it."""

    def find_hits(rubric: RawRubric) -> Iterator[Hit]:
        for position, criterion in enumerate(rubric.criteria, 1):
            if (found := find(criterion)) is not None:
                yield Hit(position, *found)

    return find_hits


def _find_empty(criterion: RawCriterion) -> tuple[str, str] | None:
    if criterion.check is not None or any(mark.isalnum() for mark in criterion.text):
        return None
    return "it has no words", "Say what the submission must contain, or remove the criterion"


CRITERIA_COUNT = Rule("criteria-count", "warning", "a rubric has fewer than 3 or more than 25 criteria", _check_count)
EMPTY_CRITERION = Rule("empty-criterion", "error", "a criterion has no words", _apply(_find_empty))


WORDS = (5, 40)
CHARACTERS = (5, 80)
SENTENCES = 4


def _check_length(rubric: RawRubric) -> Iterator[Hit]:
    for position, criterion in rubric.judged:
        words = criterion.wording
        least, most = CHARACTERS if words.chinese else WORDS
        unit = "character" if words.chinese else "word"
        shorten = "Keep one requirement without its reasons, or split the criterion"
        if not least <= words.size <= most:
            lengthen = "Say what the submission must contain, so that the criterion can be judged alone"
            advice = lengthen if words.size < least else shorten
            yield Hit(position, f"{pluralize(words.size, unit)}; expected {least} to {most}", advice)
        elif len(words.sentences) > SENTENCES:
            yield Hit(position, f"{pluralize(len(words.sentences), 'sentence')}; expected 1 to {SENTENCES}", shorten)


LENGTH = Rule(
    "length", "note", "a criterion has fewer than 5 or more than 40 words, or over 4 sentences", _check_length
)


_ADVICE = "Write the criteria in the language of the query, so that quotes and terms can be found"


def _check_language(rubric: RawRubric) -> Iterator[Hit]:
    wanted = detect_language(rubric.query)
    if wanted is None:
        return
    read = rubric.judged
    # All criteria together have enough words to detect a language; a single one often does not.
    whole = detect_language("\n".join(criterion.wording.own for _, criterion in read))
    if len(read) > 1 and whole not in (None, wanted):
        yield Hit(None, f"the criteria are in {whole!r}, and the query is in {wanted!r}", _ADVICE)
        return
    for position, criterion in read:
        found = detect_language(criterion.wording.own)
        if found not in (None, wanted):
            yield Hit(position, f"it is in {found!r}, and the query is in {wanted!r}", _ADVICE)


LANGUAGE = Rule("language-mismatch", "warning", "criteria are not in the language of the query", _check_language)


_FEWEST = 3


def _find_equal(rubric: RawRubric) -> Iterator[Hit]:
    weights = {criterion.weight for criterion in rubric.criteria}
    if len(rubric.criteria) >= _FEWEST and len(weights) == 1 and 0 not in weights:
        advice = "Give the most important criteria a higher weight, unless all matter equally"
        yield Hit(None, f"all {len(rubric.criteria)} criteria have weight {weights.pop():g}", advice)


def _find_dominant(rubric: RawRubric) -> Iterator[Hit]:
    rewards = [(criterion.weight, n) for n, criterion in enumerate(rubric.criteria, 1) if criterion.weight > 0]
    if len(rewards) < _FEWEST:
        return
    heaviest, position = max(rewards, key=lambda pair: pair[0])
    total = sum(weight for weight, _ in rewards)
    if heaviest * 2 > total:
        finding = f"it holds {heaviest:g} of {total:g} points, more than all other criteria together"
        yield Hit(position, finding, "Lower its weight, or split it")


def _find_no_reward(rubric: RawRubric) -> Iterator[Hit]:
    if rubric.criteria and not any(criterion.weight > 0 for criterion in rubric.criteria):
        finding = "no criterion has a positive weight, so no submission can earn a point"
        yield Hit(None, finding, "Add criteria for what a good submission shows, or change the signs")


EQUAL_WEIGHTS = Rule("equal-weights", "note", "all weights of a rubric are the same", _find_equal)
DOMINANT_WEIGHT = Rule("dominant-weight", "warning", "one criterion has more than half of the points", _find_dominant)
_NO_WEIGHT = "weight 0: it is judged but does not affect the score", "Give it a weight, or remove it"
ZERO_WEIGHT = Rule(
    "zero-weight",
    "warning",
    "a criterion of weight 0 costs a call and does not affect the score",
    _apply(lambda criterion: None if criterion.weight else _NO_WEIGHT),
)
NO_REWARD = Rule("no-positive-weight", "error", "nothing in the rubric can earn points", _find_no_reward)


def _check_signs(rubric: RawRubric) -> Iterator[Hit]:
    for position, criterion in rubric.judged:
        words = find_contradiction(criterion.wording.bare, criterion.weight)
        if words and find_forced_verdict(criterion.wording):
            continue  # an order to the judge describes no submission
        if words and criterion.weight < 0:
            yield Hit(
                position,
                f"weight {criterion.weight:g} takes points away although {words!r} describes a strength",
                "Describe the fault itself, or make the weight positive",
            )
        elif words:
            yield Hit(
                position,
                f"weight {criterion.weight:g} gives points although {words!r} describes a fault",
                "Make the weight negative, or ask for the right thing",
            )


SIGN = Rule("sign-contradiction", "error", "the sign of the weight contradicts the wording", _check_signs)


def _find_unreachable(criterion: RawCriterion) -> tuple[str, str] | None:
    options = criterion.options
    if options is None:
        return None
    scored = [option for option in options if not option.na]
    twice = [label for label, n in Counter(o.label.strip().casefold() for o in options).items() if n > 1]
    if twice:
        return (
            f"the label {twice[0]!r} is given twice, so one of them can never be selected",
            "Give each option its own label",
        )
    if len(scored) < 2:
        return (
            f"it has {pluralize(len(scored), 'option')} with a score; no choice makes a difference",
            "Add options, or make it a binary criterion",
        )
    if len({option.value for option in scored}) == 1:
        return (
            f"all its options are worth {scored[0].value:g}; no choice makes a difference",
            "Give the options values from 0 (worst) to 1 (best)",
        )
    return None


def _check_values(criterion: RawCriterion) -> tuple[str, str] | None:
    scored = [option for option in criterion.options or () if not option.na]
    values = [option.value for option in scored]
    if len(set(values)) < 2:
        return None
    if max(values) < 1:
        finding = f"its best option is worth {max(values):g}, so a submission can never earn the full weight"
        return finding, "Give the best option the value 1"
    if criterion.scale != "ordinal" or len(set(values)) == len(values):
        return None
    same = next(value for value in values if values.count(value) > 1)
    labels = " and ".join(repr(option.label) for option in scored if option.value == same)
    return f"{labels} are both worth {same:g} on an ordinal scale", "Merge them, or give them different values"


UNREACHABLE_OPTION = Rule(
    "unreachable-option", "error", "options that share a label, or all have the same value", _apply(_find_unreachable)
)
OPTION_VALUES = Rule(
    "option-values",
    "warning",
    "no option has the full value, or two steps of a scale have equal values",
    _apply(_check_values),
)


def _find_invalid(criterion: RawCriterion) -> tuple[str, str] | None:
    if criterion.check is None:
        return None
    from autorubric.checks import validate_check

    problems = find_check_problems(criterion.check)
    if not problems:
        with collected(problems):
            validate_check(criterion.check["name"], criterion.check.get("parameters") or {})
    return ("; ".join(problems), "Name a check that exists, with its parameters") if problems else None


INVALID_CHECK = Rule("invalid-check", "error", "a criterion names a check that cannot run", _apply(_find_invalid))


_TELL_MORE = (EMPTY_CRITERION, INVALID_CHECK, OPTION_VALUES, UNREACHABLE_OPTION)


def _find_refused(rubric: RawRubric) -> Iterator[Hit]:
    reported = {hit.criterion for rule in _TELL_MORE for hit in rule.find(rubric)} if rubric.refusals else set()
    for position, problem in rubric.refusals:
        if position is None or position not in reported:
            yield Hit(position, problem, "Grading rejects this rubric; correct it")


REFUSED = Rule(
    "refused",
    "error",
    "grading rejects the rubric, for example because of an unknown key or a duplicate name",
    _find_refused,
)
