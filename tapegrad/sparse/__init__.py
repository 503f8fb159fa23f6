"""Sparse derivatives: which result depends on which argument, and arrays of just these derivatives.

`elements`    a finished tape element by element: what each one is computed from.
`pattern`     from that, the pattern of the Jacobian.
`colouring`   columns, rows, or both at once, that can share a direction.
`compressed`  seeds of the directions, and where in what comes back the entries stand.
`machine`     sweeps or a kernel, and the entries gathered from them.
`api`         `tg.sparsity`, `tg.sparse_jacobian`, `tg.sparse_hessian`.
"""
