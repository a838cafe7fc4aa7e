"""Synthesis of rubrics: queries in, rubrics with their evidence out."""
