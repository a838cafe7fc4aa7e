"""Better wordings and weights for a rubric, accepted only on labels that were not used to find them.

`changed_wording` represents a change, `samples` splits the labelled items, `search` finds candidates, `measures` and
`acceptance` decide about them, and `study` runs it all.
"""
