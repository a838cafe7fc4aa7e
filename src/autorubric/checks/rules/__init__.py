"""The rule verifiers of RubricHub's released data and of IFEval.

One function a verifier. A verdict is the one the published verifier gives, except where that one crashes or
is vacuous; docs/checks.md lists these cases.
"""
