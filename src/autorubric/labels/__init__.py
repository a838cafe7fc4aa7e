"""The labels of a run: an append-only store, a blind queue, adjudication, import and export.

Labelling, one process at a time (every method may be called from any thread)::

    with label_queue(run, Ask("label_next", size=20, seed=0)) as queue:  # RunLockedError names another process
        queue.prepare()                   # optional: draw the first batch; InputError: there are no pairs to label
        task = queue.next("ana")          # a blind Task, or None; the draw is on disk before it returns
        queue.label("ana", task.pair.index, task.pair.place, "MET", note="", quote="", seconds=4.2)
        queue.skip("ana", task.pair.index, task.pair.place)
        queue.undo("ana")                 # the Task that is open again, or None; `next` returns it next
        queue.disputes()                  # list[Dispute]: a Task and every annotator's label, no judge
        queue.adjudicate("cy", index, place, "UNMET", note="")
        queue.may_show("ana", index, place)  # False until ana has labelled the pair: show no verdict, vote or score
        queue.progress("ana")             # Progress(labelled, skipped, open, differing)
        queue.ask = Ask("criterion", "Tone")  # what the next batches draw

`label`, `skip`, `undo` and `adjudicate` return after the commit has reached the disk. `NotSavedError` says that
nothing was stored (a full disk: HTTP 507), `InputError` that the name, pair, verdict or text is wrong (400).
A `Task` has `pair` (`index`, `place`, `item`, `criterion`, `digest`), `query`, `submission`, `reference`,
`requirement`, `weight` and `choices`. Verdicts come in any case; the store keeps MET, UNMET, CANNOT_ASSESS or the
option's label. `items=` takes anything with the five methods of `Items`, so that a server need not read the whole
dataset.

Reading needs no lock and never waits, also while another process labels::

    history = read_history(run)           # a History; read_history(run, history) adds what is new
    history.labels(pair.key)              # {annotator: Event} of the labels that stand, first label first
    history.decision(pair.key)            # the adjudication that stands, or None
    history.verdict(pair.key)             # what counts: the decision, else the majority; None in a tie
    history.differing()                   # keys of pairs on which annotators differ, undecided
    history.events                        # everything, undone labels and skips included

The store is `labels/labels.sqlite` in the run directory. Triggers refuse to change or delete an event. A label whose
pair has changed since (`PairFinder.find(event)` is None) is kept, and counts for nothing.
"""

from autorubric.lazy_names import build_lazy_names

__all__, __dir__, __getattr__ = build_lazy_names(__name__, __file__)
