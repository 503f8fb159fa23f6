"""Sparse derivatives: arrays of just the derivatives that can be other than zero.

Imports: common, array, autograd, program, transforms.

`api`         `tg.sparsity`, `tg.sparse_jacobian`, `tg.sparse_hessian`; `program.sparsity` says where entries are.
"""
