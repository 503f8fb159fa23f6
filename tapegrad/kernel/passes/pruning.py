"""Removing what no output and no guard needs: values, stores, temporaries, carries, loops.

A walk from the outputs and guards back to what they use; what it does not meet is left out.  Most passes leave
behind what they have made superfluous, and rely on this one.
"""

from __future__ import annotations

from .. import ir


def prune(program):
    """Keep only statements that outputs and guards depend on.

    A store counts if its buffer is an output or is read by something that counts.
    """
    writers, roots = {}, []
    for statement in ir.walk(program.body):
        if isinstance(statement, ir.Guard):
            roots.append(statement)
        for buffer, _, stores in ir.touched(statement):
            if stores:
                writers.setdefault(buffer, []).append(statement)
    for buffer in program.outputs:
        roots += writers.pop(buffer, ())
    needed = set(roots)

    def need(statement):
        if statement not in needed:
            needed.add(statement)
            roots.append(statement)

    while roots:
        statement = roots.pop()
        for value in ir.operands(statement):
            need(value)
        if isinstance(statement, ir.Carry):
            need(statement.init)
            need(statement.next)
        for buffer, _, stores in ir.touched(statement):
            if not stores:
                for writer in writers.pop(buffer, ()):
                    need(writer)

    def kept(body):
        result = []
        for statement in body:
            if isinstance(statement, ir.Loop):
                statement.body = kept(statement.body)
                statement.carries = [carry for carry in statement.carries if carry in needed]
                if statement.body or statement.carries:
                    result.append(statement)
            elif statement in needed:
                result.append(statement)
        return result

    program.body = kept(program.body)
    return program
