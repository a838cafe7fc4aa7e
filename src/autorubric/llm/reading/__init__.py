"""From the text of a reply to the value that was asked for."""
