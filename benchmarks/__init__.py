"""Every promise about speed and memory, measured beside the libraries people know.

``python -m benchmarks`` runs all of it; the package's parts are:

* `registry`: what a benchmark is, and the list of them;
* `timing`: minima and medians of repeated, interleaved runs;
* `memory`: the resident size of this process, now and over time;
* `machine`: facts about the machine that go beside the numbers;
* `report`: the tables;
* one file per benchmark, named in `registry.MODULES`;
* `__main__`: the command, which runs each benchmark in a process of its own.

To add a benchmark, write a file with a function decorated by
`registry.benchmark` that yields `registry.Row` objects, and name the file in
`registry.MODULES`.
"""
