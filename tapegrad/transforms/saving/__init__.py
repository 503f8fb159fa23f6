"""Finished tapes in files.

`save`         the format, writing and reading; `literals`, plain data and names of functions.
`archive`      the members of a file that nobody vouches for; `budget`, how many bytes it may take.
`validate`     what must hold of a tape from a file; `shapes`, what every row gives.
"""
