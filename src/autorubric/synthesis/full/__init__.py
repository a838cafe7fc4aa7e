"""The paper's whole method: a pool of graded responses, evolution in rounds, and gates with evidence."""
