"""Derivatives that are themselves recorded, and so can be differentiated again.

`reading`     an instruction of a tape with tensors for its operands.
`adjoint`     the reverse sweep with tensors: it writes the gradient on the tape it walks.
`again`       a stretch of a tape run again with other operands: dual numbers carry forward mode over reverse.
`passes`      ``backward(create_graph=True)``: hooks, ``.grad``, requested inputs.
`nested`      a functional derivative inside of another one.
`functional`  `hessian`, `hvp`, `hessian_diag`, `laplacian`, `gnvp`.
"""
