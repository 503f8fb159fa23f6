"""The modules of the suite, a file each; see `benchmarks.gradbench.protocol`."""
