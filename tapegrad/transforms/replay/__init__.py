"""Functional recordings: a function written down once, and replayed at other points.

A file belongs to one of five steps; read them in this order.

A call, from the outside in:

`function`     `Replayed`, which every transformation is made of: which tape answers a call, and when one is recorded.
`arguments`    inputs of the tape, and everything else, which is part of the key.
`purity`       what the function depends on besides its arguments; `watched`, the same for compiled code to compare.
`cache`        the tapes of one kind of arguments, found by what guards saw.
`running`      the user's function, run: recorded, or define-by-run; `difference` compares two recordings.
`stats`        what `g.stats()` says of all this.

A recording becomes a tape:

`trace`        what a recording notes beyond the records: every operand, guards, values that Python read.
`finish`       from a recording to a `FinishedTape`: what is needed, each thing once, in replay order.
`listing`      a finished tape in print.
`calling`      what users do with one by itself: call it, differentiate it, save it.

A tape is replayed:

`workspace`    the memory of one replay: records, arrays, adjoints; `run`.
`stream`       what a replay does, laid out as words when a workspace is made.
`walk`         the compiled replay: values and guards forward, adjoints backward.
`values`       the program that computes the value of one array entry.
`swept`        many directions through what was replayed (Jacobians).
`plainly`      the first gradient of a short tape, without any compiled code.

It is called again, fast:

`quick`        the short way of a call that is like the last one; `quick_values`, where only values are wanted.
`entry`        the entry from users' nopython code (`tg.compile`), by the words in `handle`.

It is kept in a file:

`save`         the format, writing and reading; `literals`, plain data and names of functions.
`archive`      the members of a file that nobody vouches for; `budget`, how many bytes it may take.
`validate`     what must hold of a tape from a file; `shapes`, what every row gives.
"""
