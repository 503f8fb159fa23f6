"""Words of a program: what a walk does for one array instruction.

A program is a flat int64 array of steps, ``[code, length, parameters...]``.
Registers hold addresses: 0 is the instruction's adjoint, 1 to 15 its saved
values, 16 to 31 adjoints of operands it adds into, 32 and up temporaries.
"""

END = 0
ALLOC = 1  # reg, nbytes, zero
MOVE = 3  # operand, reg, nbytes, size: give a whole temporary to the operand's adjoint
ADD = 4  # operand, reg, nbytes, size: copy or add a whole buffer
TARGET = 5  # operand, reg, nbytes: the operand's adjoint, made of zeros if new
SCALAR = 6  # operand, reg: add one double to a scalar operand's adjoint
SHIFT = 8  # reg, source reg, bytes: source plus the dynamic attribute times bytes
CALL = 9  # loop, data, nargs, (reg, offset)*, ndims, dims*, nsteps, steps*, nbatch, (extent, strides*)*
SCAN = 10  # source reg, offset, factor reg, offset, target reg, size, how, n, 3 strides, nouter, (extent, 3 strides)*
SCATTER = 11  # source reg, index reg, target reg, count, size: target[index] += source
GATHER = 12  # source reg, index reg, target reg, count, size: target = source[index]
ZERO_AT = 13  # reg, index reg, count, size: reg[index] = 0
CONST = 14  # reg, address: an array that the signature owns
REPAIR = 16  # reg, offset, row and column strides of two factors, target reg, size, m, k, n, nbatch, (extent, 2 strides)*
DEMAND = 17  # reg: end, and say so, unless this number is 1

FIRST_SAVED = 1
FIRST_TARGET = 16
FIRST_TEMPORARY = 32
REGISTERS = 256
#: Arguments of one call.
MOST_ARGUMENTS = 128

#: Scratch memory of a walk, in bytes, and where in it the registers start; before them is what single steps need.
SCRATCH, REGISTERS_AT = 8192, 4096
#: There, too, the address of the blocks that a sweep keeps, or 0 (`codegen.memory.new_block`).
KEPT_AT = 256

#: A row of `Signature.TABLE`, which the walks read, has so many words; then, in bytes from its start: the program's address,
#: how many values are saved and how many operands there are, whether the result is a scalar, whether what is saved is large,
#: and the bytes of what is saved.
ROW_WORDS = 6
ROW_BYTES = 8 * ROW_WORDS
ROW_PROGRAM, ROW_SAVES, ROW_OPERANDS, ROW_SCALAR, ROW_LARGE, ROW_SAVED = range(0, ROW_BYTES, 8)

#: Words of a reverse sweep, addresses unless said otherwise: the records, the scalar switch of adjoints, `interpreter.steps.run`, the
#: signatures, the addresses of what has been saved (`native.locate`); a word for the adjoint of each slot, a byte for each slot that is
#: visited, scratch memory; how many slots there are.  Walks that need more words have them behind these (`program.walk`).
W_RECORDS, W_SWITCH, W_RUN, W_TABLE, W_SAVED, W_ADJOINT, W_MARKS, W_SCRATCH, W_SLOTS = range(9)
WORDS = 9

#: A walk returns this minus the index of a scalar instruction that its switch does not know (`codegen.of_rows`), or of that of an array whose
#: program has ended at a DEMAND; the other one, if there was no memory for what that computes.
UNKNOWN, NO_MEMORY = -(1 << 40), -(1 << 41)
#: What such a program returns then.
CALL_FAILED, NO_BLOCK = 1, 2

#: What is added to what the short way keeps of a signature (`signature.Signature.short`) where the result may lie in memory in several ways.
LOOKED_AT = 64
#: Bytes of a number, by the dtypes that steps take.
SIZES = {"d": 8, "f": 4}
#: How a scan goes on.
SUMS, PRODUCTS, RECURRENCE, LAGGED = range(4)
