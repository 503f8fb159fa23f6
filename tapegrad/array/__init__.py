"""Numbers and arrays that carry derivatives: tensors, dual numbers, and the functions of this library on them.

Imports: common, rules, tape, interpreter.

`differentiable`   what tensors and dual numbers have in common; `tensor`, `dual`, the two classes.
`record`           one operation becomes a value and an instruction, and what a recording is told of errors.
`operators`        Python's operators, and changes in place.
`functions`        functions of the namespace, which are methods too.
`whole`            integers and booleans of a recording.
`objects`          NumPy's arrays of objects, and lists, that hold tensors.
`indexing`, `assigning`, `views`, `creation`   are what their names say; `creation` has what other libraries ask tensors for, too.
`recorded`         the language that rules are written in, on arrays, tensors and dual numbers, and on floats; `series`, on power series.
`typing`           types for annotations; `typed_methods`, what type checkers are told of methods.
"""
