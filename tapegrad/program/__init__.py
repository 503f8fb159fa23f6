"""A function as a finished tape, and its replay: plain data and what runs it, without cache or policy.

Imports: common, rules, tape, codegen, interpreter, array, autograd.

A recording becomes a tape:

`trace`        what a recording notes beyond the records: every operand, guards, values that Python read.
`handlers`     which handlers of exceptions could catch what a replay does not raise.
`finish`       from a recording to a `FinishedTape`: what is needed, each thing once, in replay order; users call it, differentiate it, save it.
`listing`      a finished tape in print; `planned`, what a replay takes in memory.
`sparsity`     which result depends on which argument.

A tape is replayed:

`workspace`    the memory of one replay: records, arrays, adjoints; a tape keeps those that are not in use.
`executable`   what answers a call, with one signature; `replayed`, a replay as one.
`enter`        the compiled way into one for objects of Python; `handle`, for nopython code.
`stream`       what a replay does, laid out as words when a workspace is made.
`walk`         the compiled replay: values and guards forward, adjoints backward; `backward`, the way back laid out.
`iterations`   a loop whose body is a tape, forward and back, compiled; `stretch`, its iterations in order.
`values`       the program that computes the value of one array entry.

A function at a point is differentiated:

`evaluation`   `Evaluation`, to be pulled and pushed, of which every transformation is a function; `ports`, its inputs and outputs, and
               what a call of an executable returns.
`sweeps`       what carries its derivatives as numbers: compiled sweeps; `choosing`, which mode is cheaper, and where it is narrow.
"""
