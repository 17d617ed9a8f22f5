"""Ray drivers of the scenarios. They run on Ray's head, read from standard input, and print JSON on their last line."""
