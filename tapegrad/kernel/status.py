"""What a call of a kernel returns, beside the number of a guard that failed (0 and up)."""

#: All is well; a gradient is not finite; the arguments are of another kind, or a watched name is bound to something else.
FINE, NOT_FINITE, OTHER = -1, -2, -3
