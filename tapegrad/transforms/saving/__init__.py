"""Finished tapes in files.

`save`         the format, writing and reading; `literals`, plain data and names of functions; `programs`, loops and their tapes.
`archive`      the members of an untrusted file, and the types of its header.
`recorder`     a file, recorded again; `abstract`, what a row gives without values; `loaded`, running it.
"""
