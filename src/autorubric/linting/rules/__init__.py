"""The rules: each finds one kind of problem; `autorubric.linting.rule_table` lists them."""
