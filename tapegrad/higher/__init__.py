"""Derivatives that are themselves recorded, and so can be differentiated again.

`reading`     an instruction of a tape with tensors for its operands.
`adjoint`     the reverse sweep with tensors: it writes the gradient on the tape it walks.
`tangents`    the tangent sweep with tensors: forward mode over a recorded gradient.
`passes`      ``backward(create_graph=True)``: hooks, ``.grad``, requested inputs.
`nested`      a functional derivative inside of another one.
`products`    `hvp` and `gnvp`.
`hessians`    `hessian`, `hessian_diag`, `laplacian`.

Read them in this order.  `adjoint` and `tangents` are one walk each, on instructions that `reading` makes readable; the others
say where it begins and what comes of it.
"""
