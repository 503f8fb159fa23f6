"""Walks over a tape: from a rule to a program, and the compiled code that runs it.

Imports: common, rules, tape, codegen.

* `rule_array` is the language that rules are written in, whatever holds the numbers.
* Planning: `planner` has the symbolic arrays that a rule is handed, how loops run over their memory and what becomes of them, `plan`
  the signature of an instruction and its backward program (`program` says what that is made of).
* One adjoint, downwards (``backward()``): `walk`, with `steps` for array instructions (`calls`, of loops and of Python); `native` is the way
  to them from Python; `walks` loads it late, and forgets what no tensor can reach.

Importing `walk` or `steps` compiles them (or loads them from the cache): others
import these when they are first needed.
"""
