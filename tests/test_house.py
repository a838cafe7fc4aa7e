"""Limits on files, functions and names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.offenders import offenders

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PUBLISHED_MODULES = {"src/autorubric/utils.py"}
BANNED = {"utils", "helpers", "common", "base", "manager", "handler"}
PREFIXES = ("get_", "do_", "process_", "handle_")
PUBLISHED = {
    "get_item_rubric",
    "get_item_reference_submission",
    "get_item_prompt",
    "get_option_value",
    "get_effective_budget",
    "get_in_context_meta_rubric",
    "get_standalone_meta_rubric",
    "get_reasoning_effort",
    "get_thinking_config",
    "get_scores",
    "get_reports",
}
"""Names of the seed documents and of the published package, which must not change."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(path: Path) -> list[Function]:
    return [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, Function)]


def test_a_file_keeps_to_the_limits_of_the_house() -> None:
    with offenders() as case:
        for path in SOURCES:
            with case(str(path.relative_to(ROOT))):
                lines = path.read_text(encoding="utf-8").count("\n")
                assert lines <= 400, f"{lines} lines"
                assert path.stem not in BANNED or str(path.relative_to(ROOT)) in PUBLISHED_MODULES
                for function in functions(path):
                    length = (function.end_lineno or 0) - function.lineno + 1
                    assert length <= 60, f"{function.name} has {length} lines"
                    assert function.name in PUBLISHED or not function.name.startswith(PREFIXES), function.name
                    assert not function.name.endswith("_of"), function.name


def test_imports_are_at_most_a_tenth_of_the_code() -> None:
    code = imports = 0
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        tree, skipped = ast.parse(text), set[int]()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                imports += (node.end_lineno or 0) - node.lineno + 1
            elif isinstance(node, ast.Module | ast.ClassDef | Function) and ast.get_docstring(node) is not None:
                skipped |= {*range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)}
        numbered = enumerate(map(str.strip, text.splitlines()), start=1)
        code += sum(bool(line) and line[0] != "#" and number not in skipped for number, line in numbered)
    assert imports <= code / 10, f"{imports} of {code} lines; import `annotations` only where a name comes later"


VERBS = """
abandon accept account acknowledge acquire add adjudicate adjust admit advise aggregate agree align alter
analyze announce answer append apply arrange arrive ask assert assess assign assume attach audit average avoid
await balance begin bill bind borrow bound break build cache calibrate call cancel cap carry catch charge check
choose claim classify clean clear clip close collect combine commit compare compile complete compute conclude
connect construct convert copy correct correlate count cover create cut deal decide decode decorate deduplicate
delay delete deliver describe detach detect determine diff digest discard dismiss dispatch download drain draw
drop dump emit encode end ensure enter escape estimate evaluate evolve exchange execute expect explain export
extend extract fail feed fence fetch fill filter find finish fit flatten flush fold follow forget format forward
frame freeze gather generate get give grade grant group grow guard guess hand handle hash hide hold identify
ignore import improve indent index insert inspect interpret interrupt introduce invert iter join judge keep
label learn leave lend limit link lint list listen load locate lock log lower make map mark match measure merge
mix move name narrow nest normalize note notify number observe occur offer open order overrule pack pair parse
pass pause pick place plan plot pluralize pool pop post preload prepare price print probe propose protect
publish pump put query queue quote raise rank rate read readmit rebuild recall receive recognize recommend
recompute record recover redact reduce refill refuse register reject relabel release remember remove rename
render renew renumber reorder repair repeat replace replay reply report reprice request require reserve reset
resolve respond restart restore resume retire reuse reveal revert review revise reward reword rewrite round
route rule run sample save say scale scan score seal search seek select send serialize serve set settle share
shorten show shut simulate size skip sleep snapshot sort spell split standardize start stat state stem step stop
store strip submit suggest sum summarize supervise suspect switch sync synthesize take tally tell test tokenize
total trace translate trim truncate try undo unescape unfold unlock unpack unseal unwrap update upload use
validate value verify view vote wait wake warn watch weigh weight widen withdraw work write
"""
FORMS = ("is", "has", "have", "are", "was", "may", "can", "must", "needs", "as", "from", "to", "with")
"""Predicates and conversions."""
NOUNS = """
beta_cdf _beta_fraction bounded_interval bounded_mean_intervals clustered_interval gwet_ac
jackknife_intervals jackknife_variance kappa_interval _kappa_variance kappas kendall mean_interval
mean_kappa_interval pearson precision_recall rogan_gladen_interval spearman standard_error t_p_value t_quantile
wilson_interval cross_fit _cross_fit _permutation_test _mean _mode _weighted_mean _weighted_mode
_address _full _tokens column_setting key_variable
_at attempts_logged cut_after known_at
async_call connection_lost connection_made model_rebuild new_event_loop on_step_end _on_timer pytest_configure
readable readinto seekable _repr_html_
annotators blocking dedup_final_rubrics differing example_run fingerprints holds identity minus nan_to_none
origins package_gate_prompts package_prompts plus specs
"""
"""Mathematics as scipy names it; factories of settings; context managers; names that other libraries call; names of
classes that users hold."""
DECLARED = re.compile(
    r"property|setter|contextmanager|overload|validator|serializer|\bcheck\b|rule\(|registered|validated"
)


def test_functions_are_named_by_verbs() -> None:
    pages = [path.read_text("utf-8") for path in [*(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.pyi")]]
    shown = re.findall(r"`[^`]*`|^(?:>>>|from|import|    ).*$", "\n".join(pages), re.MULTILINE)
    published = set(re.findall(r"\w+", " ".join(shown)))
    with offenders() as case:
        for path in SOURCES:
            with case(str(path.relative_to(ROOT))):
                named = [
                    one.name
                    for one in functions(path)
                    if not DECLARED.search(str([*map(ast.unparse, one.decorator_list)]))
                ]
                first = {name: name.strip("_").partition("_")[0] for name in named if not name.startswith("__")}
                known = {*VERBS.split(), *FORMS}
                assert [
                    name
                    for name, word in first.items()
                    if word not in known and name not in {*NOUNS.split(), *published}
                ] == []


PRODUCTS = {"anthropic", "gemini", "openai", "open_instruct", "verifiers", "verl"}
"""Files may be named after the product that they serve, in each room that serves it."""


def test_a_file_name_occurs_in_one_room() -> None:
    found: dict[str, list[str]] = {}
    for path in SOURCES:
        room, name = path.parent.relative_to(ROOT / "src" / "autorubric").as_posix(), path.stem
        # A command and its function share a name, and the published modules at the root lead to the rooms.
        if room not in {"cli", "."} and not name.startswith("__") and name not in PRODUCTS:
            found.setdefault(name, []).append(room)
    assert {name: rooms for name, rooms in found.items() if len(rooms) > 1} == {}


SYSTEM_SPECIFIC = re.compile(
    r"import (fcntl|msvcrt|resource|pwd|grp|termios|uvloop)|add_signal_handler|signal\.signal\("
    r"|os\.(name\b|fchmod|chown|pwrite|pread|statvfs|set_blocking|fork|setsid|kill|getuid|uname|sync|fdatasync)"
    r"|O_(NONBLOCK|DIRECTORY|CLOEXEC|NOFOLLOW|BINARY)|sys\.platform|\"/proc/|SO_REUSE|SO_LINGER"
)


def test_two_files_hold_what_systems_do_differently() -> None:
    found = [str(path.relative_to(ROOT)) for path in SOURCES if SYSTEM_SPECIFIC.search(path.read_text("utf-8"))]
    assert found == [
        "src/autorubric/background.py",
        "src/autorubric/files/descriptors.py",
    ]


def test_no_file_names_a_machine_or_asks_for_what_is_forbidden() -> None:
    forbidden = ("import pickle", "from pickle", "unittest" + ".mock", "eval(", "shell=True")
    for path in SOURCES:
        text = path.read_text()
        found = [word for word in forbidden if word in text and f"literal_{word}" not in text]
        assert not found, f"{path}: {found}"


def test_sql_has_no_numbered_placeholders() -> None:
    """Python 3.12 warns of `?1` with values by place, and 3.14 refuses it; SQLite has `?` and `:name` for both."""
    found = [str(path) for path in SOURCES if re.search(r"[=<>(,] ?\?\d", path.read_text("utf-8"))]
    assert found == []


def test_the_demo_ends_by_naming_the_command_that_shows_its_result() -> None:
    demo = re.search(r"^demo:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert demo is not None
    *_, synthesize, _, _, last = demo[1].splitlines()
    assert "--out demo-out " in synthesize and "autorubric view demo-out" in last
