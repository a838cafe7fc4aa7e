"""`autorubric lint`: find problems of rubrics without a model."""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence

from autorubric.cli import EXIT_SCORE
from autorubric.cli.command import command
from autorubric.errors import pluralize
from autorubric.jobs.rubric_files import LintRun, LintSettings
from autorubric.linting import SEVERITIES, Finding, Rule

_EXAMPLES = """
autorubric lint rubric.yaml --fail-on warning
autorubric lint final.parquet --format sarif > rubrics.sarif
"""


@command(LintSettings, _EXAMPLES)
def lint(settings: LintSettings) -> int:
    """Find weak or faulty criteria in rubrics, without a model.

    The exit status is 100 if a finding is at least as severe as --fail-on.
    """
    rules = settings.choose_rules()
    if settings.list_rules:
        for rule in rules:
            print(f"{rule.id:<20} {rule.severity:<8} {rule.summary}")
        return 0
    run = LintRun(settings)
    try:
        for piece in _format_output(run, rules, settings.format):
            sys.stdout.write(piece)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as `head`, has closed the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_SCORE if run.has_failed(settings.fail_on) else 0
    run.raise_problems()  # before the counts, which would be incomplete
    print(_format_summary(run), file=sys.stderr)
    return EXIT_SCORE if run.has_failed(settings.fail_on) else 0


def _format_summary(run: LintRun) -> str:
    """Sizes and counts, and a line for each rule with findings."""
    found = ", ".join(pluralize(run.by_severity[name], name) for name in SEVERITIES)
    lines = [f"{pluralize(run.criteria, 'criterion')} in {pluralize(run.rubrics, 'rubric')}: {found}"]
    lines += [f"{count:>7,}  {rule}" for rule, count in run.by_rule.most_common()]
    if unread := run.by_language.total() - sum(run.by_language[code] for code in (None, "en", "zh")):
        known = "the wording rules support only English and Chinese"
        lines.append(f"note: {pluralize(unread, 'rubric')} in another language; {known}")
    return "\n".join(lines)


def _format_output(findings: Iterable[Finding], rules: Sequence[Rule], form: str) -> Iterator[str]:
    """Yield the output in pieces, each as soon as it is known."""
    if form == "sarif":
        from autorubric import __version__
        from autorubric.linting.sarif import to_sarif

        yield from to_sarif(findings, rules, __version__)
    elif form == "json":
        yield "["
        for number, finding in enumerate(findings):
            yield (",\n " if number else "\n ") + json.dumps(finding.as_dict(), ensure_ascii=False)
        yield "\n]\n"
    else:
        yield from (f"{finding.line()}\n" for finding in findings)
