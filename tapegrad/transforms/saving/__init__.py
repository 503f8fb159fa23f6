"""Finished tapes in files.

`save`         the format, writing and reading; `literals`, plain data and names of functions; `programs`, loops and their tapes.
`archive`      the members of a file that nobody vouches for.
`validate`     what must hold of a tape from a file; `abstract`, its rows recorded without values; `loaded`, running it.
"""
