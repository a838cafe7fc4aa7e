"""`autorubric gates`: the gates on recorded replies."""

from collections.abc import Iterator

from autorubric.cli.command import command, run
from autorubric.errors import pluralize
from autorubric.files import dump_json
from autorubric.jobs.gates import GatesSettings, gates_async
from autorubric.synthesis.replayed_gates import GatesReplay, Share

_EXAMPLES = """
autorubric gates rubrics --record replies.jsonl --sample 40
autorubric gates --replay replies.jsonl
"""


@command(GatesSettings, _EXAMPLES)
def gates(settings: GatesSettings) -> int:
    """Run the gates on recorded replies; compare their decisions with human labels.

    --record writes the replies of a run to a file with empty fields for the labels of two annotators; --replay prints
    how many bad criteria the gates reject and how many good ones they keep, with 95% confidence intervals.
    """
    result = run(gates_async(settings))
    if result.replayed is None:
        print(f"{pluralize(result.recorded, 'row')} in {settings.record}, one for each query; fill in the labels")
    elif settings.as_json:
        print(dump_json(_build_json(result.replayed), 2))
    else:
        print("\n".join(_format_replay(result.replayed)))
    return 0


def _build_json(found: GatesReplay) -> dict[str, object]:
    error, correlation = found.estimate_draw_error()
    return {
        "queries": found.queries,
        "criteria": len(found.judged),
        "labelled": len(found.labelled),
        "kappa": found.compute_kappa(),
        "unreadable_replies": found.lost,
        "shares": {name: _dump_share(share) for name, share in found.compute_shares().items()},
        "draw_error": _dump_share(error),
        "draw_error_correlation": correlation,
        "rejected_by_gate": {
            gate: dict(zip(("bad", "good", "not_labelled"), counts, strict=True))
            for gate, counts in found.count_by_gate().items()
        },
    }


def _dump_share(share: Share) -> dict[str, object]:
    return {**share._asdict(), "share": share.value}


def _format_replay(found: GatesReplay) -> Iterator[str]:
    yield f"{pluralize(len(found.judged), 'criterion')} in {pluralize(found.queries, 'rubric')}"
    if found.lost:
        yield f"relevance replies that could not be parsed: {found.lost:,}"
    kappa, both = found.compute_kappa(), found.both
    same = sum(mine == other for mine, other in both)
    shown = "" if kappa is None else f" (kappa {kappa:.2f})"
    labelled = pluralize(len(both), "criterion")
    yield f"two annotators labelled {labelled} and agree on {same}{shown}; the table counts these"
    if not both:
        yield "the shares need labels of two annotators: fill in `labels` in the file"
    for name, share in found.compute_shares().items():
        yield f"  {name:<28} {_format_share(share)}"
    error, correlation = found.estimate_draw_error()
    yield f"error rate of one relevance draw: {_format_share(error)}"
    if correlation is not None:
        yield f"correlation of the errors of two draws: {correlation:.2f}"
    yield "rejected: bad, good, not labelled"
    for gate, counts in found.count_by_gate().items():
        yield f"  {gate:<12}" + "".join(f"{count:>6,}" for count in counts)


def _format_share(share: Share) -> str:
    if share.value is None or share.low is None or share.high is None:
        return "no case"
    interval = f"[{share.low:.1%}, {share.high:.1%}]"
    return f"{share.hits} of {share.of}  {share.value:.1%} {interval}"
