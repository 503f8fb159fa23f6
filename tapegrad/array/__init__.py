"""Numbers and arrays that carry derivatives: tensors, dual numbers, and the functions of this library on them.

Imports: common, rules, tape, interpreter.

`differentiable`   what tensors and dual numbers have in common; `tensor`, `dual`, the two classes.
`record`           one operation becomes a value and an instruction, and what a recording is told of errors; `operators`, the fast path of Python's operators.
`functions`        functions of the namespace, which are methods too.
`whole`            integers and booleans of a recording.
`objects`          NumPy's arrays of objects, and lists, that hold tensors.
`indexing`, `inplace`, `assigning`, `views`, `creation`   are what their names say; `creation` has what other libraries ask tensors for, too.
`recorded`         the language that rules are written in, on arrays, tensors and dual numbers; `series`, on power series; `closures`, on floats.
`typing`           types for annotations; `typed_methods`, what type checkers are told of methods.
"""
