"""The words of the handle of a compiled function (`transforms.replay.entry`)."""

#: Address of the entry that calls use, and its version; axes, shape and bytes of the first argument;
#: workspaces; the last failure; address of the entry by sweep, and of the kernel; address of what says what the further
#: arguments are, and their number.
(
    H_ENTRY, H_VERSION, H_DIMENSIONS, H_SHAPE, H_NBYTES, H_COUNT, H_WORKSPACES, H_FAILED, H_SWEEP, H_KERNEL, H_DATA, H_MORE,
) = range(12)  # fmt: skip
HANDLE = 12
#: What further arguments are: for each the number of its axes, then its extents; this for a float.
NUMBER = -1
#: Words of a workspace of a handle: taken, its parameters, where its gradient and its value are, and a kernel's block:
#: room for three addresses, then the workspace (a cache line in all).
T_TAKEN, T_PARAMETERS, T_GRADIENT, T_VALUE, T_BLOCK = range(5)
TAKE = 8
