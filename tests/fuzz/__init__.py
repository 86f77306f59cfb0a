"""Coverage-guided fuzzing: `run` lets atheris look for bytes that break what `target` promises.

`corpus.txt` holds inputs that reached something new, one in hexadecimal a line; the usual suite tries
them all, and a run begins with them.
"""
