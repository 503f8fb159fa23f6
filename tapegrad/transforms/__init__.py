"""What users call: `grad`, `jit`, `jacobian`, `hessian` and their like, and how their calls are answered.

Imports: common, rules, tape, codegen, interpreter, array, autograd, program, kernel, nopython.

`transformed`  what they return, also of transformations that are one function of an evaluation; `functional`, `grad`, `value_and_grad` and `jit`.
`forward`      `jvp`, `derivative`, the passes on dual numbers of `jacfwd`, and `jet`: Taylor coefficients of any order.
`jacobians`    `vjp`, `linearize`, `jacfwd`, `jacrev`, `jacobian`.
`hessians`     `hessian`, `hessian_diag`, `laplacian`, `hvp`, `gnvp`.
`vmap`         `vmap`: a function of many points at once; `loops`, of which these are the iterations.
`checkpoint`   computes again on the way back instead of storing.
`implicit`     derivatives of what a solver finds.
`compiled`     `compile`: a recorded function with its gradient, called from Numba's nopython code.
`replay`       which tape or kernel answers a call, and when a function is recorded.
`saving`       finished tapes in files.
"""
