"""Docstrings of the many small functions: parameters in one vocabulary, and an example for each.

A function whose docstring says all that is to be said in a line gets its parameters
and its example from here; `complete` puts them together when the module of the
functions is imported.  The examples are doctests.
"""

from __future__ import annotations

import inspect

#: What a parameter of this name is, everywhere.
PARAMETERS = {
    "order": ("{'C', 'F'}", "In which order, as in NumPy."),
    "x": ("Tensor or array-like", ""),
    "y": ("Tensor or array-like", "Broadcast with `x`."),
    "a": ("Tensor or array-like", ""),
    "b": ("Tensor or array-like", ""),
    "tensors": ("sequence of Tensor or array-like", ""),
    "axis": ("int, optional", "`dim` is the same where there is one."),
    "dim": ("int, optional", "PyTorch's name of `axis`."),
    "dims": ("int or tuple of int, optional", "PyTorch's name of `axis`."),
    "axis1": ("int", ""),
    "axis2": ("int", ""),
    "axes": ("int, or one tuple", ""),
    "offset": ("int", "Diagonal: above the main one if positive, below if negative."),
    "k": ("int", "Diagonal: above the main one if positive, below if negative."),
    "shape": ("int, or one tuple", ""),
    "min": ("Tensor or array-like, optional", ""),
    "max": ("Tensor or array-like, optional", ""),
    "source": ("int or tuple of int", "Where the axes are."),
    "destination": ("int or tuple of int", "Where they go."),
    "indices_or_sections": ("int or sequence of int", "How many equal parts, or where to cut."),
    "repeats": ("int or sequence of int", ""),
    "reps": ("int or tuple of int", ""),
    "shift": ("int or tuple of int", ""),
    "indices": ("int array-like or Tensor", ""),
    "mode": ("{'raise', 'wrap', 'clip'}", ""),
    "dtype": ("dtype, optional", "float64 by default; of a ``*_like`` function that of `x`."),
    "copy": ("bool", "False: `x` itself if it has that dtype."),
    "ddof": ("int", ""),
    "keepdims": ("bool", "Keep reduced axes with extent 1.  `keepdim` is the same."),
    "keepdim": ("bool", "PyTorch's name of `keepdims`."),
    "requires_grad": ("bool", "Whether the tensor is a leaf."),
    "size": ("int or tuple of int", ""),
    "fill_value": ("float or Tensor", ""),
    "n": ("int", "Rows."),
    "m": ("int, optional", "Columns; as many as rows by default."),
    "args": ("float", "``start, stop, step`` as of ``np.arange``."),
    "start": ("float", ""),
    "end": ("float", ""),
    "steps": ("int", ""),
    "array": ("ndarray", ""),
    "seed": ("int", ""),
    "data": ("Tensor or array-like", ""),
    "ids": ("int array-like or Tensor, shape (n,)", "The group of each row of `data`, counted from 0."),
    "num": ("int, optional", "How many groups there are; one more than the largest number by default."),
    "input": ("Tensor or array-like", ""),
    "target": ("Tensor or array-like", "Of the shape of `input`."),
    "reduction": ("{'mean', 'sum', 'none'}", ""),
}


def complete(functions, examples, returns=None):
    """Add parameters, result and example to docstrings that do not have them.

    Parameters
    ----------
    functions : dict of str to callable
        Functions by name; those of one object under two names are done once.
    examples : dict of str to str
        By name: ``expression`` and, in the next lines, what it prints.
    returns : dict of str to str, optional
        The type of the result; Tensor otherwise.
    """
    for name, example in examples.items():
        function = functions[name]
        doc = inspect.cleandoc(function.__doc__ or "")  # Python 3.13 takes the indentation away, older ones leave it
        if not doc or ">>>" in doc:  # python -OO leaves docstrings out
            continue
        parts = [doc]
        code = function.__code__
        count = code.co_argcount + code.co_kwonlyargcount
        named = list(code.co_varnames[:count])
        # The name of *args stands behind those of all other parameters.
        starred = code.co_varnames[count] if code.co_flags & inspect.CO_VARARGS else None
        if starred:
            named.insert(code.co_argcount, starred)
        if "Parameters\n" not in doc:
            parts += ["", "Parameters", "----------"]
            for parameter in named:
                kind, text = PARAMETERS[parameter]
                star = "*" if parameter == starred else ""
                parts.append(f"{star}{parameter} : {kind}")
                if text:
                    parts.append(f"    {text}")
        if "Returns\n" not in doc:
            parts += ["", "Returns", "-------", (returns or {}).get(name, "Tensor")]
        parts += ["", "Examples", "--------", ">>> import tapegrad as tg", f">>> {example}"]
        function.__doc__ = "\n".join(parts) + "\n"


#: Examples of the functions in `tapegrad.array.functions`.
FUNCTIONS = {
    "sum": "tg.sum(tg.tensor([[1.0, 2.0], [3.0, 4.0]]), axis=0)\ntensor([4., 6.])",
    "mean": "tg.mean(tg.tensor([1.0, 2.0, 6.0]))\ntensor(3.)",
    "prod": "tg.prod(tg.tensor([2.0, 3.0]))\ntensor(6.)",
    "max": "tg.max(tg.tensor([2.0, 3.0]))\ntensor(3.)",
    "min": "tg.min(tg.tensor([2.0, 3.0]))\ntensor(2.)",
    "norm": "tg.norm(tg.tensor([3.0, 4.0]))\ntensor(5.)",
    "logsumexp": "tg.logsumexp(tg.tensor([1000.0, 1000.0]))\ntensor(1000.6931)",
    "var": "tg.var(tg.tensor([1.0, 2.0, 3.0]))\ntensor(0.6667)",
    "std": "tg.std(tg.tensor([1.0, 3.0]))\ntensor(1.)",
    "cumsum": "tg.cumsum(tg.tensor([1.0, 2.0, 3.0]))\ntensor([1., 3., 6.])",
    "softmax": "tg.softmax(tg.tensor([0.0, 0.0]))\ntensor([0.5000, 0.5000])",
    "log_softmax": "tg.log_softmax(tg.tensor([0.0, 0.0]))\ntensor([-0.6931, -0.6931])",
    "power": "tg.power(tg.tensor([2.0, 3.0]), 2)\ntensor([4., 9.])",
    "clip": "tg.clip(tg.tensor([-1.0, 0.5, 2.0]), 0.0, 1.0)\ntensor([0.0000, 0.5000, 1.0000])",
    "where": "tg.where([True, False], tg.tensor([1.0, 2.0]), 0.0)\ntensor([1., 0.])",
    "matmul": "tg.matmul(tg.tensor([[1.0, 2.0]]), tg.tensor([3.0, 4.0]))\ntensor([11.])",
    "dot": "tg.dot(tg.tensor([1.0, 2.0]), [3.0, 4.0])\ntensor(11.)",
    "outer": """tg.outer(tg.tensor([1.0, 2.0]), [3.0, 4.0])
tensor([[3., 4.],
        [6., 8.]])""",
    "trace": "tg.trace(tg.tensor([[1.0, 2.0], [3.0, 4.0]]))\ntensor(5.)",
    "reshape": """tg.reshape(tg.tensor([1.0, 2.0, 3.0, 4.0]), 2, 2)
tensor([[1., 2.],
        [3., 4.]])""",
    "ravel": "tg.ravel(tg.tensor([[1.0, 2.0], [3.0, 4.0]]))\ntensor([1., 2., 3., 4.])",
    "flatten": "tg.flatten(tg.tensor([[1.0, 2.0], [3.0, 4.0]]))\ntensor([1., 2., 3., 4.])",
    "squeeze": "tg.squeeze(tg.tensor([[1.0, 2.0]]))\ntensor([1., 2.])",
    "expand_dims": "tg.expand_dims(tg.tensor([1.0, 2.0]), 0)\ntensor([[1., 2.]])",
    "transpose": """tg.transpose(tg.tensor([[1.0, 2.0], [3.0, 4.0]]))
tensor([[1., 3.],
        [2., 4.]])""",
    "t": """tg.t(tg.tensor([[1.0, 2.0], [3.0, 4.0]]))
tensor([[1., 3.],
        [2., 4.]])""",
    "swapaxes": "tg.swapaxes(tg.zeros(2, 3), 0, 1).shape\n(3, 2)",
    "moveaxis": "tg.moveaxis(tg.zeros(2, 3, 4), 0, -1).shape\n(3, 4, 2)",
    "flip": "tg.flip(tg.tensor([1.0, 2.0, 3.0]))\ntensor([3., 2., 1.])",
    "broadcast_to": """tg.broadcast_to(tg.tensor([1.0, 2.0]), (2, 2))
tensor([[1., 2.],
        [1., 2.]])""",
    "expand": """tg.expand(tg.tensor([[1.0], [2.0]]), -1, 2)
tensor([[1., 1.],
        [2., 2.]])""",
    "diagonal": "tg.diagonal(tg.tensor([[1.0, 2.0], [3.0, 4.0]]))\ntensor([1., 4.])",
    "diag": """tg.diag(tg.tensor([1.0, 2.0]))
tensor([[1., 0.],
        [0., 2.]])""",
    "concatenate": "tg.concatenate([tg.tensor([1.0, 2.0]), [3.0]])\ntensor([1., 2., 3.])",
    "stack": "tg.stack([tg.tensor(1.0), 2.0])\ntensor([1., 2.])",
    "split": "tg.split(tg.tensor([1.0, 2.0, 3.0, 4.0]), 2)\n[tensor([1., 2.]), tensor([3., 4.])]",
    "array_split": "tg.array_split(tg.tensor([1.0, 2.0, 3.0]), 2)\n[tensor([1., 2.]), tensor([3.])]",
    "repeat": "tg.repeat(tg.tensor([1.0, 2.0]), 2)\ntensor([1., 1., 2., 2.])",
    "tile": "tg.tile(tg.tensor([1.0, 2.0]), 2)\ntensor([1., 2., 1., 2.])",
    "segment_sum": "tg.segment_sum([1.0, 2.0, 5.0], [0, 2, 0])\ntensor([6., 0., 2.])",
    "segment_mean": "tg.segment_mean([1.0, 2.0, 5.0], [0, 2, 0], 4)\ntensor([3., 0., 2., 0.])",
    "segment_max": "tg.segment_max([1.0, 2.0, 5.0], [0, 1, 0])\ntensor([5., 2.])",
    "segment_min": "tg.segment_min([1.0, 2.0, 5.0], [0, 1, 0])\ntensor([1., 2.])",
    "roll": "tg.roll(tg.tensor([1.0, 2.0, 3.0]), 1)\ntensor([3., 1., 2.])",
    "take": "tg.take(tg.tensor([1.0, 2.0, 3.0]), [2, 0])\ntensor([3., 1.])",
    "clone": "tg.clone(tg.tensor([1.0, 2.0]))\ntensor([1., 2.])",
    "astype": """tg.astype(tg.tensor([1.0, 2.0]), "float32").dtype
dtype('float32')""",
}

#: Examples of the functions in `tapegrad.array.creation`.
CREATION = {
    "zeros": "tg.zeros(2)\ntensor([0., 0.])",
    "ones": """tg.ones(2, 2)
tensor([[1., 1.],
        [1., 1.]])""",
    "empty": "tg.empty(2, 3).shape\n(2, 3)",
    "rand": "tg.rand(2, 3).shape\n(2, 3)",
    "randn": "tg.randn(2, 3).shape\n(2, 3)",
    "full": "tg.full((2,), 7.0)\ntensor([7., 7.])",
    "eye": """tg.eye(2)
tensor([[1., 0.],
        [0., 1.]])""",
    "arange": "tg.arange(3.0)\ntensor([0., 1., 2.])",
    "linspace": "tg.linspace(0.0, 1.0, 3)\ntensor([0.0000, 0.5000, 1.0000])",
    "from_numpy": "tg.from_numpy(tg.ones(2).numpy())\ntensor([1., 1.])",
    "zeros_like": "tg.zeros_like([1.0, 2.0])\ntensor([0., 0.])",
    "ones_like": "tg.ones_like([1.0, 2.0])\ntensor([1., 1.])",
    "empty_like": "tg.empty_like([1.0, 2.0]).shape\n(2,)",
    "rand_like": "tg.rand_like([1.0, 2.0]).shape\n(2,)",
    "randn_like": "tg.randn_like([1.0, 2.0]).shape\n(2,)",
    "full_like": "tg.full_like([1.0, 2.0], 3.0)\ntensor([3., 3.])",
    "as_tensor": "tg.as_tensor([1.0, 2.0])\ntensor([1., 2.])",
    "manual_seed": """type(tg.manual_seed(0)).__name__
'Generator'""",
}
