"""Every promise about speed and memory, measured beside the libraries people know.

``python -m benchmarks`` runs all of it; the package's parts are:

* `registry`: what a benchmark is, and the list of them;
* `timing`: minima and medians of repeated, interleaved runs;
* `memory`: the resident size of this process, now and over time;
* `fresh`: programs in new processes, for what is paid once;
* `programs`: functions that several benchmarks differentiate;
* `machine`: facts about the machine that go beside the numbers;
* `report`: what a run found, as data and as tables; `plots`: the pictures;
* `in_docs`: the numbers of the README and of `docs/`, filled in from the results;
* one file per benchmark, named in `registry.MODULES`, and gradients written by hand as their measure;
* `__main__`: the command, which runs each benchmark in a process of its own;
* `compile_helpers`: the command that says what each compiled function costs to compile;
* `gradbench`: the tool for the public suite GradBench.

To add a benchmark, write a file with a function decorated by
`registry.benchmark` that yields `registry.Row` objects, and name the file in
`registry.MODULES`.  Where libraries are compared, `registry.check_agreement`
sees that they compute the same, and a row's `times` say what each takes: where another is
faster, the report says so by itself.  A number for the docs is a row, without a promise if there is none.
"""
