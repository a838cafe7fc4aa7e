"""An improvement in its run directory, its estimate, and the reverting of changes."""

import json
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zlib import crc32

from autorubric.background import rare_collections
from autorubric.core.rubric import Rubric
from autorubric.errors import InputError, find_first_cause
from autorubric.files import read_text, write_atomically
from autorubric.graders.criterion_grader import CriterionGrader
from autorubric.graders.demands import assume_demands
from autorubric.graders.judge import Answered, Read
from autorubric.improvement import run_files
from autorubric.improvement.changed_wording import Wording, WordingOutcome
from autorubric.improvement.improvement_record import apply_undo, build_record, undo
from autorubric.improvement.labelled import LabelledRubric
from autorubric.improvement.measures import list_values
from autorubric.improvement.refusals import LeakGuard
from autorubric.improvement.search import SearchRules
from autorubric.improvement.study import Aims, Improvement, Study
from autorubric.improvement.wording_judge import GradingCounts, LedgerJudge
from autorubric.improvement.writing import ROLE as WRITER
from autorubric.improvement.writing import Stopped, Writer, load_writer_prompt
from autorubric.jobs.improve import ImprovementInputs, ImproveResult, ImproveSettings
from autorubric.jobs.judges import make_grader
from autorubric.jobs.recorded_run import RecordedRun, open_estimate_ledger, run_ledger
from autorubric.jobs.submissions import read_rubric
from autorubric.llm.executor import Executor, FollowUp
from autorubric.llm.http.endpoints import share_slots
from autorubric.llm.models import check_priced, open_models
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Answer, Failure, Model, Reply, Request
from autorubric.metrics.table import FAILED
from autorubric.runs.manifest import read_manifest
from autorubric.runs.run import DRAWS_A_GENERATION, REPLY_TOKENS, CallCounter, begin_generation, find_next_generation


@dataclass
class ImprovementRun(RecordedRun):
    """An improvement in progress.

    Attributes:
        inputs: rubric, labels and proposals.
        drawn: the split into teaching, choosing and test set.
        grader: the grader with the judges.
        second: the grader with another judge, for the test set only.
        draws: the first draw of this generation of replies.
        counts: the counts of gradings.
        notes: events of the log.
        before: the number of times that the writer returned alternatives in earlier sessions.
        found: the result; None if the run was stopped.
    """

    kind = "improvement"
    stage = "judged"
    inputs: ImprovementInputs
    drawn: run_files.DrawnSplit
    grader: CriterionGrader
    second: CriterionGrader | None
    draws: int
    before: int = 0
    counts: GradingCounts = field(default_factory=GradingCounts)
    notes: list[dict[str, Any]] = field(default_factory=list)
    found: Improvement | None = None

    async def execute(self) -> None:
        """Run the study; stop if no further call can succeed or too many calls failed."""
        try:
            self.found = await self._build_study().run()
        except* Stopped as several:
            stopped = find_first_cause(several)
            assert isinstance(stopped, Stopped)
            self.end_with(stopped.failure)
            self.stop(stopped.failure.message)
            await self.executor.drain()  # a failure cancels the callers, but calls in flight go on

    def _build_study(self) -> Study:
        settings, inputs, labelled = self.settings, self.inputs, self.inputs.labelled
        ask, writer, template = self.executor.ask_for, self.models.get("writer"), load_writer_prompt()
        rubric, used, how = str(self.made_of["rubric"]), inputs.used, settings.reasoning
        return Study(
            labelled,
            self.drawn.split,
            self._build_judging(self.grader),
            None if writer is None else Writer(writer, ask, labelled, template, self.draws, self._note, how),
            _build_guard(labelled),
            _build_aims(inputs, settings),
            SearchRules(settings.candidates, settings.rounds),
            None if self.second is None else self._build_judging(self.second),
            inputs.proposals,
            run_files.FileUseRecorder(self.out, self.drawn.run_id, used, labelled.digest_texts(), rubric),
            self._note,
        )

    def _build_judging(self, grader: CriterionGrader) -> LedgerJudge:
        window = self.settings.concurrency
        return LedgerJudge(grader, self.executor.ask_for, self.inputs.labelled, self.draws, window, self.counts)

    def _note(self, kind: str, **values: Any) -> None:
        self.notes.append({"event": kind, **values})

    def count(self) -> tuple[int, int, int]:
        """Return the numbers of wanted, successful and failed gradings."""
        counts = self.counts
        return counts.wanted, counts.done - counts.failed, counts.failed

    def build_entries(self) -> dict[str, Any]:
        """Return the writer's prompt, and how often it returned alternatives (the maximum over all sessions)."""
        now = sum(note["event"] == "written" for note in self.notes)
        return {"written": max(self.before, now), "templates": {"improve": load_writer_prompt().fingerprint}}

    def describe(self) -> dict[str, Any]:
        """Return the entries about the run for the record."""
        return {
            "autorubric": version("autorubric-hub"),
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "judges": list(self.grader.judge_ids),
            "second_judges": [] if self.second is None else list(self.second.judge_ids),
            "writer": self.models["writer"].name if "writer" in self.models else "",
            "measure": self.settings.measure,
            "stand_ins": list(self.stand_ins),
        }


async def run_improvement(inputs: ImprovementInputs, settings: ImproveSettings) -> ImproveResult:
    """Run or resume the improvement in its directory; a finished one is only read."""
    out, grader, second = Path(settings.out), make_grader(settings), settings.build_second_grader()
    made_of = inputs.describe_run(grader, settings)
    async with AsyncExitStack() as stack:
        for one in (grader, second):
            if one is not None:
                await stack.enter_async_context(aclosing(one))
        stack.enter_context(rare_collections())
        stack.enter_context(settings.attempts_logged())
        stack.enter_context(share_slots(settings.concurrency))
        writers = await stack.enter_async_context(open_models(settings.build_writer_config(), settings.concurrency))
        models = {**(await grader.open_session()).models, **writers}
        if second is not None:
            models |= {f"second {name}": model for name, model in (await second.open_session()).models.items()}
        inputs.draw_split(settings)  # refuses too few labels before the directory is created
        if inputs.used.path.parent != out:
            inputs.used.check()
        ledger = await stack.enter_async_context(
            run_ledger(settings, ImprovementRun, run_files.FILES, made_of, models, _list_exchangeable)
        )
        before = read_manifest(out)
        if settings.start_over:
            for name in (run_files.SPLIT_FILE, run_files.FINALISTS_FILE, run_files.RECORD_FILE):
                (out / name).unlink(missing_ok=True)
        finished = run_files.read_record(out, run_files.RECORD_FILE)
        if finished is not None:
            return _restore_result(inputs.labelled.rubric, finished, out, ledger)
        drawn = inputs.draw_split(settings)
        drawn.write(out)
        inputs.labelled.rubric.to_file(out / run_files.ORIGINAL_FILE)
        run = ImprovementRun(
            inputs,
            drawn,
            grader,
            second,
            begin_generation(ledger, start_over=settings.start_over) * DRAWS_A_GENERATION,
            before["written"] if before and before.get("calls") else 0,
            executor=grader.executor_on(ledger),
            settings=settings,
            ledger=ledger,
            models=models,
            made_of=made_of,
        )
        return await _finish_run(run)


async def _finish_run(run: ImprovementRun) -> ImproveResult:
    await run.carry_out()
    rubric, totals = run.inputs.labelled.rubric, run.ledger.add_up()
    if run.found is None:
        run.save("stopped")
        return ImproveResult(rubric, {}, run.out, totals, None, run.stopped or "", run.interrupted)
    aims = _build_aims(run.inputs, run.settings)
    record = build_record(run.inputs.labelled, run.drawn.split, aims, run.found, run.describe())
    made = run_files.write_results(run.out, rubric, record, run_files.list_events(record, run.notes))
    run.save("completed")
    return ImproveResult(made, record, run.out, totals)


def _restore_result(rubric: Rubric, record: dict[str, Any], out: Path, ledger: Ledger) -> ImproveResult:
    """Rebuild the result and its files from the decisions of an earlier session; the test set is not used again."""
    names = run_files.read_undone_names(out)
    with run_files.intact(out / run_files.RECORD_FILE):
        made, record = apply_undo(rubric, record, names)
        run_files.write_page(out, record)
    rubric.to_file(out / run_files.ORIGINAL_FILE)
    # Without the log, it is unknown which changes were reverted.
    if (out / run_files.LOG_FILE).exists() or not (out / run_files.RUBRIC_FILE).exists():
        made.to_file(out / run_files.RUBRIC_FILE)
    return ImproveResult(made, record, out, ledger.add_up(), again=True)


def _list_exchangeable(manifest: Mapping[str, Any]) -> list[str]:
    """Return `writer` if it may be exchanged: it returned no alternatives, and the last session was not killed."""
    return ["writer"] if manifest.get("written") == 0 and manifest.get("status") != "running" else []


def _build_aims(inputs: ImprovementInputs, settings: ImproveSettings) -> Aims:
    level, places = settings.confidence_level, inputs.places
    return Aims(settings.measure, level, places, settings.most_criteria, settings.weights, settings.seed)


def _build_guard(labelled: LabelledRubric) -> LeakGuard:
    dataset = labelled.dataset
    known = [dataset.get_item_prompt(item) for item in range(len(dataset))]
    known += filter(None, (dataset.get_item_reference_submission(item) for item in range(len(dataset))))
    known += [criterion.requirement for criterion in labelled.rubric]
    return LeakGuard.from_texts((item.submission for item in dataset), known, (item.id for item in dataset))


def undo_changes(source: Rubric | Path | str, names: Sequence[str], out: Path) -> ImproveResult:
    """Revert changes; write the rubric and a line of the log to the directory."""
    rubric = undo(source if isinstance(source, Rubric) else read_rubric(Path(source)), names)
    try:
        out.mkdir(parents=True, exist_ok=True)
        rubric.to_file(out / run_files.RUBRIC_FILE)
        events = read_text(out / run_files.LOG_FILE) if (out / run_files.LOG_FILE).exists() else ""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        write_atomically(
            out / run_files.LOG_FILE,
            [events, json.dumps({"event": "undone", "criteria": list(names), "at": now}), "\n"],
        )
        record = run_files.read_record(out, run_files.RECORD_FILE)
        if record is not None and (out / run_files.ORIGINAL_FILE).exists():
            original = Rubric.from_file(out / run_files.ORIGINAL_FILE)
            run_files.write_page(out, apply_undo(original, record, run_files.read_undone_names(out))[1])
    except OSError as error:
        raise InputError(f"{out}: cannot be written: {error.strerror}; pass another --out") from error
    return ImproveResult(rubric, {}, out)


_TOKENS_AN_ALTERNATIVE = 150


async def estimate_improvement(inputs: ImprovementInputs, settings: ImproveSettings) -> ImproveResult:
    """Return the calls that the run would make, per model; sends no request and writes nothing.

    Recorded replies are used; where one is missing, each round is assumed to find a better wording.
    """
    grader, second, out = make_grader(settings), settings.build_second_grader(), Path(settings.out)
    split, labelled = inputs.draw_split(settings).split, inputs.labelled
    async with AsyncExitStack() as stack:
        for one in (grader, second):
            if one is not None:
                await stack.enter_async_context(aclosing(one))
        ledger = stack.enter_context(open_estimate_ledger(out))
        writers = await stack.enter_async_context(open_models(settings.build_writer_config(), 1))
        models = {**(await grader.open_session()).models, **writers}
        check_priced(models, settings.budget_usd)
        settings.show_stand_ins(len(labelled), [model.name for model in models.values()])
        counter = CallCounter(
            Executor(ledger),
            lambda request: _TOKENS_AN_ALTERNATIVE * settings.candidates if request.role == WRITER else REPLY_TOKENS,
            find_next_generation(ledger, start_over=settings.start_over),
            assume=lambda request, read: _assume_alternatives(request, read, settings.candidates),
        )

        async def ask(model: Model, request: Request, read: Read, follow_up: FollowUp) -> Answered:
            answer = await counter(model, request, read, follow_up)
            return replace(answer, kind="timeout") if isinstance(answer, Failure) else answer  # ends nothing

        judging = _AssumedJudge(grader, ask, labelled, rounds=settings.rounds)
        testing = None if second is None else replace(judging, grader=second, originals={})
        template, how = load_writer_prompt(), settings.reasoning
        writing = [Writer(model, ask, labelled, template, reasoning=how) for model in writers.values()]
        rules, aims = SearchRules(settings.candidates, settings.rounds), _build_aims(inputs, settings)
        writer, guard = next(iter(writing), None), _build_guard(labelled)
        study = Study(labelled, split, judging, writer, guard, aims, rules, testing, inputs.proposals)
        try:
            await study.run()
        except* Stopped:
            """A recorded reply of the writer has no alternatives; the run would ask again and stop there."""
    return ImproveResult(labelled.rubric, {}, out, estimate=[*counter.found.values()], items=len(split.items))


@dataclass
class _AssumedJudge(LedgerJudge):
    """Judges by recorded replies; without one, the original is assumed wrong and each round's wordings better.

    Attributes:
        rounds: the number of rounds of writing; round r corrects r of `rounds` + 1 errors.
    """

    rounds: int = 1
    originals: dict[tuple[int, int], int] = field(default_factory=dict)

    async def judge(
        self, wording: Wording, items: Sequence[int], *, retest: bool = False
    ) -> dict[int, WordingOutcome]:
        """Return the outcome of each item."""
        found = {}
        for item in items:
            outcome = await self._judge_item(wording, item, retest)
            found[item] = self._assume(wording, item, outcome) if outcome.code == FAILED else outcome
            if wording.kind == "original":
                self.originals[wording.place, item] = found[item].code
        return found

    def _assume(self, wording: Wording, item: int, outcome: WordingOutcome) -> WordingOutcome:
        place, changed = wording.place, wording.kind != "original"
        worth, right = list_values(self.labelled.rubric[place]), max(int(self.labelled.truth[item, place]), 0)
        number = max(int(wording.name.rpartition("/")[2].partition(".")[0]), 1) if changed else 0
        repaired = item % (self.rounds + 1) < number or self.originals.get((place, item)) == right
        code = right if repaired else (right + 1) % len(worth)
        votes = tuple(code if number % 2 else right for number in range(len(outcome.votes)))
        return WordingOutcome(code, votes, "x" * 200, float(worth[code]))  # the writer sees reasons


def _assume_alternatives(request: Request, read: Read, count: int) -> Answer[Any] | None:
    """Return distinct wordings of typical length for a writer's request; None for other requests."""
    if request.role != WRITER:
        return assume_demands(request)
    own = crc32(request.messages[-1].content.encode("utf-8", "surrogatepass"))  # no text is proposed twice
    texts = [f"Wording {number} of {own:08x} " + "names what has to be there. " * 5 for number in range(count)]
    answer = read(Reply(json.dumps({"alternatives": [{"requirement": text} for text in texts]})))
    return answer if isinstance(answer, Answer) else None
