"""`tg.show`: a sweep that one can walk through, as one HTML file.

`program`              what is shown: a run of a function on a tape, as data.
`page`                 the file that it becomes: `page.html`, `page.css`, `page.js`, which draws, and `walk.js`, the state machine.
"""
