"""What a call of an executable returns, beside the number of a guard that failed (0 and up)."""

#: All is well; a gradient is not finite; the arguments are of another kind; an instruction that compiled code does not know.
FINE, NOT_FINITE, OTHER, BROKEN = -1, -2, -3, -4
