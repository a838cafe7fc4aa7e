"""Items to be graded, with the labels people gave them."""

from autorubric.dataset.collection import RubricDataset
from autorubric.dataset.item import DataItem

__all__ = ["DataItem", "RubricDataset"]
