"""Which result of a finished tape depends on which argument, and how few directions give all the derivatives.

In the order in which to read, which is that of the data:

`pattern`     a finished tape element by element: what each one is computed from; from that, the pattern of the Jacobian.
`compressed`  columns, rows, or both at once, that can share a direction; its seeds, and where in what comes back the entries stand.
`walk`        the compiled loops of `pattern` and `compressed`.

Of ``lambda x: x[1:] * x[:-1]`` with four elements::

    pattern       # # . .        colours 0 1 0 1: columns of one colour share no row
                  . # # .        directions e0 + e2 and e1 + e3, two instead of four
                  . . # #        entry (0, 1) is row 0 of what comes back for colour 1
"""
