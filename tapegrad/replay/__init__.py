"""Functional recordings: a function written down once, and replayed at other points.

`trace`      what a recording notes beyond the records: every operand, guards, values that Python read.
`finish`     from a recording to a `FinishedTape`: what is needed, each thing once, in replay order.
`values`     the program that computes the value of one array entry.
`walk`       the compiled replay: values and guards forward, adjoints backward.
`workspace`  the memory of one replay: records, arrays, adjoints.
`cache`      the tapes of one function, found by what guards saw.
`quick`      the short way of a call that is like the last one.
`entry`      the entry from users' nopython code (`tg.compile`).
`listing`    a finished tape in print.
"""
