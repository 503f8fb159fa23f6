"""What every folder may use: errors, settings, containers, text. It knows nothing of tapes.

Imports: nothing of the package.

`errors`           all errors, and the paragraphs of docs/errors.md about them.
`registry`         the few names that a higher folder tells a lower one.
`config`           settings, and where compiled code is kept.
`tree`             containers as a list of leaves and a structure; arrays in objects of other libraries.
`exact`            by what values that are no inputs are compared.
`dtypes`           which numbers can carry a derivative.
`host_functions`   functions without derivative by name, so that a file can say which.
`uninterrupted`    work that signals and forks wait for; `waiting`, what a call waits for, said, and what is done meanwhile.
`pool`             threads that share the work of one call.
`observers`        listeners for values that leave the tape; handles of hooks.
`pictures`         figures that a notebook shows.
`public`           what public modules and functions show; keywords of other libraries, what to write for them.
`tracebacks`       printed without this package's frames.
`printing`, `memory`, `version`   are what their names say.
"""

import sysconfig

if sysconfig.get_config_var("Py_GIL_DISABLED"):
    raise ImportError("tapegrad counts references and needs a Python with the global interpreter lock; this is a free-threaded build, so use the ordinary one.")
