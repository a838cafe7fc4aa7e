"""Several candidate rubrics into one, with an account of every criterion that went in."""

from autorubric.synthesis.aggregation.accounting import Account, DroppedSource, Merged, account
from autorubric.synthesis.aggregation.deduplicating import Deduplicated, Fate, pre_deduplicate
from autorubric.synthesis.aggregation.folding import Fold, fits, fold_order
from autorubric.synthesis.aggregation.merging import MergeReply, merge_request, merge_room, read_merge
from autorubric.synthesis.aggregation.sameness import lost_numbers, sameness_key

__all__ = [
    "Account",
    "Deduplicated",
    "DroppedSource",
    "Fate",
    "Fold",
    "MergeReply",
    "Merged",
    "account",
    "fits",
    "fold_order",
    "lost_numbers",
    "merge_request",
    "merge_room",
    "pre_deduplicate",
    "read_merge",
    "sameness_key",
]
