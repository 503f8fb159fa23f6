"""Machine code for a tape.

A kernel computes what the replay of one finished tape computes.  The way there::

    FinishedTape --adjoint--> FinishedTape          values and gradients as one tape
                 --roll-----> Structure             repeated runs of instructions are loops
                 --build----> LoopProgram           loops, loads and stores (`kernel.ir`)
                 --passes---> LoopProgram           fused, forwarded, recomputed, planned
                 --emit-----> LLVM --> machine code
"""
