"""What the course says on paper, as small pure functions: the derivation in the docstring, times in minutes.

The scenarios predict with them, ``python -m smoke predict`` is a calculator over them.
"""
