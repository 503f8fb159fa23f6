"""Tools for looking at the rest: checks, comparisons, explanations, the demonstration, the commands of the shell.

Imports: common, rules, tape, codegen, interpreter, array, numpy_api, autograd, program, kernel, nopython, transforms, scipy, optimize, automata, fits, interop.

`check`          `tg.check`: is the value right, are the derivatives?
`explain_zero`   why a derivative is zero.
`profiling`      where the time goes, line by line.
`comparing`      every mode side by side, measured and predicted.
`installation`   what this installation is made of, and how it is compiled before it is needed.
`ahead`          all machine code that belongs to no user's function; `building`, how a wheel gets it.
`demo`           the model of hares and lynxes; `commands`, what ``python -m tapegrad`` offers beside it.
"""
