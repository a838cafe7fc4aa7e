"""The index of a run in `RUN/.view/`: a cache made from `items.jsonl` and `dataset.json` alone."""
