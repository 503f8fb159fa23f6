"""Array instructions as statements of the loop program.

An array value is an `ArrayRef`: elements of one buffer, found by an affine map, so that
views allocate nothing.  A value of shape ``()``, of any dtype, is a `Value`.

How the builder calls this::

    arrays = Arrays(tape)                       # one for each program
    ref = arrays.constant(array)                # a constant of the tape: ArrayRef, or a Value of a 0-d one
    statements, result = arrays.emit(item, operands, target, integer, reuse)

`operands` are ArrayRefs and Values, in the order of ``item.operands`` (a Let is good for a
constant scalar: it need not stand in a body, `emit` puts it there).  `statements` are to be
executed in order at the place of the instruction; `result` is an ArrayRef or a Value:

* without `target`: a view of an operand (no statements), or an array in a new TEMPORARY
  buffer, C-contiguous; 
* with `target` (an ArrayRef of the result's shape and dtype): the target, written.

`integer` is the dynamic attribute (the `i` of ``x[i]``): None (that of the entry), or an `Index` in
the counters of the loops around the instruction, base included.  `reuse` says that the first operand may be written
over (an indexed assignment then goes into it, and it is the result).

Inside rolled loops, offsets of ArrayRefs and `integer` depend on the counters of the loops around
the place; a table in them is looked up by statements of the result.  Temporaries are made for
one execution; what must outlive an iteration needs a target.
"""
