"""Finished tapes in files.

`save`         the format, writing and reading; parameters and other plain data; `programs`, loops and their tapes.
`archive`      the members of an untrusted file, the types of its header, plain data and names of functions in it; running its tape.
`recorder`     a file, recorded again, by what rows give without values.
"""
