"""The rules: each finds one thing that is wrong with a rubric; `autorubric.linting.rule_table` lists them."""
