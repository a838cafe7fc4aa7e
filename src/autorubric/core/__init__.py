"""The nouns of the field: verdict, criterion, rubric, score. Nothing here awaits, logs or knows a network."""
