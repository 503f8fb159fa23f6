"""Sparse derivatives: arrays of just the derivatives that can be other than zero.

Imports: common, tape, array, autograd, kernel, transforms.

`machine`     sweeps or a kernel, and the entries gathered from them; `program.sparsity` says which they are.
`api`         `tg.sparsity`, `tg.sparse_jacobian`, `tg.sparse_hessian`.
"""
