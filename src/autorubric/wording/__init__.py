"""What the words of a criterion say, found without a model; English and Chinese."""

from autorubric.wording.negations import negations_in
from autorubric.wording.numbers import ENGLISH, NUMBER_WORDS, narrowed, numbers_in, whole_number

__all__ = ["ENGLISH", "NUMBER_WORDS", "narrowed", "negations_in", "numbers_in", "whole_number"]
