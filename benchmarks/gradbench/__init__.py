"""tapegrad as a tool of GradBench, a public benchmark suite of differentiation tools.

``python -m benchmarks.gradbench`` reads one JSON message a line on stdin and
answers on stdout (`protocol`).  A module of the suite is one file in `modules`,
found by its name; `by_hand` holds the same gradients written by hand, as the
measure of a row of the benchmarks.
"""
