"""`autorubric review`: a model reviews a rubric."""

import json
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path

from autorubric.cli import EXIT_SCORE, EXIT_UNFINISHED
from autorubric.cli.command import command, run_with_display
from autorubric.cli.spending import print_early_end, print_estimate, print_spending
from autorubric.jobs.review import PAGE_FILE, PROPOSALS_FILE, ReviewResult, ReviewSettings, review_async
from autorubric.jobs.rubric_files import list_severities
from autorubric.llm.failure_groups import NOT_MADE
from autorubric.reviewing.requests import as_lint_finding, list_review_rules

_EXAMPLES = """
autorubric review rubric.yaml --reviewer openai/gpt-5.1 --query "Why does ice float?" -o reviewed
autorubric review rubric.yaml --reviewer openai/gpt-5.1 --format sarif -o reviewed > review.sarif
"""


@command(ReviewSettings, _EXAMPLES)
def review(settings: ReviewSettings) -> int:
    """Review a rubric with a model; findings quote the rubric.

    To resume a run, run the same command again. `improve` can test the proposed wordings.
    """
    # If a program reads standard output, it gets only findings.
    announce = print if settings.format == "text" else partial(print, file=sys.stderr)
    result = run_with_display(review_async, settings, announce)
    if result.estimate is not None:
        return print_estimate("no request was sent", result.estimate, settings, settings.out)
    _print(result, settings)
    return _print_end(result, settings)


def _print(result: ReviewResult, settings: ReviewSettings) -> None:
    file = str(settings.rubric) if isinstance(settings.rubric, Path) else ""
    if settings.format == "json":
        print(json.dumps([finding.as_dict() for finding in result.findings], ensure_ascii=False, indent=1))
    elif settings.format == "sarif":
        from autorubric import __version__
        from autorubric.linting.sarif import to_sarif

        findings = (as_lint_finding(finding, file) for finding in result.findings)
        failures = [_format_failure(failure) for failure in result.failures]
        sys.stdout.writelines(
            to_sarif(findings, list_review_rules(), __version__, "docs/reference/review.md", failures)
        )
    else:
        for finding in result.findings:
            print(as_lint_finding(finding, file).line())
    print(result, file=sys.stderr)
    for failure in result.failures:
        if failure["kind"] not in NOT_MADE or not result.stopped:  # why the run stopped is printed below
            print(f"  {_format_failure(failure)}", file=sys.stderr)
    print_spending(result.totals, file=sys.stderr)
    print(f"  report: {result.out / PAGE_FILE}; for improve: {result.out / PROPOSALS_FILE}", file=sys.stderr)


def _format_failure(failure: Mapping[str, str]) -> str:
    return f"{failure['part']}: {failure['kind']}: {failure['message']}"


def _print_end(result: ReviewResult, settings: ReviewSettings) -> int:
    with redirect_stdout(sys.stderr):
        ended = print_early_end(result.stopped, settings.again, interrupted=result.interrupted)
    if ended is not None:
        return ended
    if result.failures:
        print(f"retry the failed requests with:\n  {settings.again}", file=sys.stderr)
        return EXIT_UNFINISHED
    severe = list_severities(settings.fail_on)
    return EXIT_SCORE if any(finding.severity in severe for finding in result.findings) else 0
