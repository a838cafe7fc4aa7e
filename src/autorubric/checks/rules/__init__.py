"""The rule verifiers of RubricHub's released data and of IFEval.

One function per verifier. Verdicts are those of the published verifier, except where it crashes or is vacuous;
docs/checks.md lists these cases.
"""
