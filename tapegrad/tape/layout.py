"""The record of one instruction, and the few opcodes that are the tape's own.

A record is 32 bytes::

    offset  0   int32    opcode
            4   int32    first operand slot   (0: none, the inline constant stands in)
            8   int32    second operand slot
           12   int32    bytecode offset of the user's code (see tape.places)
           16   float64  value of a scalar result
           24   float64  inline constant of a scalar instruction
                or int64 position of the saved objects / integer attribute of an array instruction

Slot *i* is the result of record *i*: instructions are in SSA order and refer
only backwards.  Opcodes from `FIRST_ARRAY` on are array instructions; what
follows FIRST_ARRAY is the number of its signature (primitive, shapes, dtypes,
attributes), and the `CLEARED` bit marks an instruction whose saved values a
backward pass has released.
"""

import struct

#: opcode, first operand, second operand, bytecode offset, value, constant
RECORD = struct.Struct("iiiidd")
#: The same record for an array instruction: the last field is an integer.
ARRAY_RECORD = struct.Struct("iiiidq")
#: Four more operands of the instruction that follows.
CONTINUATION = struct.Struct("iiiiqq")

OPERANDS = (4, 8)
OFFSET_AT = 12
VALUE = 16
CONSTANT = 24

SCALAR_LEAF = 1
FIRST_ARRAY = 1024
#: Above any signature of array instructions:
ARRAY_LEAF = 0x08000000
CONTINUES = 0x08000001
CLEARED = 0x10000000
#: An entry of a functional recording: what it is stands in the trace (`program.trace`), by slot.
TRACED = 0x08000002

#: Marks of a backward pass for instructions that it reaches, and for leaves (or what stands for inputs).
MARK, LEAF_MARK = 1, 2
