"""Machine code for a tape: a program of loops made from it, and LLVM from that.

Imports: common, rules, tape, codegen, interpreter, array, autograd, program.

A kernel computes what the replay of one finished tape computes.  The way there::

    FinishedTape --adjoint--> FinishedTape          values and gradients as one tape
                 --roll-----> RolledStructure       repeated runs of instructions are loops
                 --build----> LoopProgram           loops, loads and stores (`kernel.ir`)
                 --passes---> LoopProgram           fused, forwarded, recomputed, planned
                 --emit-----> LLVM --> machine code

Value and gradient of ``s = 0.0; for i in range(100): s = s + np.sin(x[i])`` on that way (``print(g.kernel(x).source())`` shows
the last one)::

    tape       %1 to %100 leaves, %101 sin %1, %102 add 0, %101, %103 sin %2, %104 add %102, %103, ...: 200 instructions
    adjoint    the same, then %301 cos %100, %302 cos %99, ..., %401 stack %400, %399, ...: the gradient

    rolled     0, 1, then a loop of 99 over 2, 3; a loop of 100 over the cosines; the stack

    built      a0 = x0[0]                                    after     a0 = x0[0]
               a1 = sin(a0)                                  passes    a1 = sin(a0)
               a2 = 0.0 + a1                                           a2 = 0.0 + a1
               for i in range(99) with a3 from a2:                     for i in range(99) with a3 from a2:
                   a4 = x0[i + 1]                                          a4 = x0[i + 1]
                   a5 = sin(a4)                                            a5 = sin(a4)
                   a6 = a3 + a5                                            a6 = a3 + a5
                   next a3 = a6                                            next a3 = a6
               for i in range(100):                                    y0[0] = a6
                   a7 = x0[-i + 99]                                    for i in range(100):
                   a8 = cos(a7)                                            a7 = x0[-i + 99]
                   t0[i] = a8                                              a8 = cos(a7)
               for i in range(100):                                        y1[-i + 99] = a8
                   t1[i] = t0[-i + 99]
               y0[0] = a6
               for i in range(100):
                   y1[i] = t1[i]

Where to read what, in the order of that way (begin with `kernel`, where all steps meet, and `ir`):

when a tape gets a kernel, and which one
    `kernels`      when a tape that is replayed becomes machine code.
    `kernel`       the kernel of a tape; `lower`, from a tape to its loop program; the compiled code, its life, and how it is called
                   (`program.executable`).
    `reasons`      why a tape has none, and what one would cost.

a derivative as a tape
    `adjoint`      values and gradients; values and tangents; or a Jacobian across a cut.
    `templates`    the derivative of one scalar instruction, and compiled code that writes it for each.
    `behind`       the adjoint of a tape of define-by-run, written on it, for a derivative inside of another.
    `terms`        symbolic values on which the rules of array instructions write theirs.
    `writing`      the tape that grows; `close` makes a `FinishedTape` of it.

loops
    `columns`      the instructions as parallel arrays; and arrays that are written element by element.
    `roll`         which of them are one line of a loop.
    `nest`         these loops, with the numbers of their executions.
    `references`   what every operand of every line is.

the loop program
    `ir`           what it consists of; `listing`, its text.
    `build`        one from `references`, and where values live that other iterations read.
    `arrays`       array instructions as statements; `arrays_planner` traces their rules into loops, and has what NumPy computes.
    `passes`       changes that make it faster.

machine code
    `cut`          pieces of bounded size, and where everything lies; `spreading`, which loops several threads share.
    `emit`         the LLVM module, with the entry from nopython code and the iterations of a loop; `emit_piece`.
"""
