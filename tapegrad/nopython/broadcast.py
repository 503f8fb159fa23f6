"""A dual number beside an array in an element-wise expression, as an array of no dimensions.

Numba fuses expressions of arrays of any element type, but takes no scalars except its own
numbers there.  This pass, between Numba's typing and its fusing, puts a dual number on
the stack and hands it on as a 0-d array, which broadcasts.
"""

from numba import types
from numba.extending import intrinsic

from ..codegen.numba_inside import call_of, cgutils, ir, make_array, new_pass, populate_array, signature
from .types import DualType, is_dual_array


@intrinsic
def on_the_stack(typingctx, x):
    """A dual number as a 0-d array that lives as long as the calling function runs."""
    if not isinstance(x, DualType):
        return None
    array_type = types.Array(x, 0, "C")

    def emit(context, builder, sig, args):
        model = context.data_model_manager[x]
        address = cgutils.alloca_once(builder, model.get_data_type())
        builder.store(model.as_data(builder, args[0]), address)
        array = make_array(array_type)(context, builder)
        size = context.get_abi_sizeof(model.get_data_type())
        populate_array(array, data=address, shape=(), strides=(), itemsize=size, meminfo=None)
        return array._getvalue()

    return array_type(x), emit


def _makes_array(var, state):
    ty = state.typemap[var.name]
    # Comparisons make arrays of booleans.
    return is_dual_array(ty) or (isinstance(ty, types.Array) and ty.dtype == types.boolean)


def _is_elementwise(expr, state):
    if not isinstance(expr, ir.Expr):
        return False
    if expr.op == "call":
        function = state.typemap[expr.func.name]
        return isinstance(function, types.Function) and hasattr(function.typing_key, "nin")
    return expr.op == "binop"


def _replace(s, scope, body, state):
    expr = s.value
    given = [expr.lhs, expr.rhs] if expr.op == "binop" else list(expr.args)
    operands = [_stacked(v, s.loc, scope, body, state) if isinstance(state.typemap[v.name], DualType) else v for v in given]
    if operands == given:
        return False
    if expr.op == "binop":
        made = ir.Expr.binop(expr.fn, *operands, expr.loc)
    else:
        made = ir.Expr.call(expr.func, operands, expr.kws, expr.loc)
    old = state.calltypes.pop(expr)
    state.calltypes[made] = signature(old.return_type, *[state.typemap[v.name] for v in operands])
    s.value = made
    return True


def _stacked(var, loc, scope, body, state):
    function_type, sig = call_of(on_the_stack, (state.typemap[var.name],), state.typingctx)
    function, array = scope.redefine("$on_the_stack", loc), scope.redefine("$stacked", loc)
    call = ir.Expr.call(function, [var], (), loc)
    body += [ir.Assign(ir.Global("on_the_stack", on_the_stack, loc), function, loc), ir.Assign(call, array, loc)]
    state.typemap[function.name], state.typemap[array.name] = function_type, sig.return_type
    state.calltypes[call] = sig
    return array


def _stack_operands(state):
    """Put dual operands of element-wise expressions on the stack."""
    changed = False
    for block in state.func_ir.blocks.values():
        body = []
        for s in block.body:
            if isinstance(s, ir.Assign) and _is_elementwise(s.value, state) and _makes_array(s.target, state):
                changed |= _replace(s, block.scope, body, state)
            body.append(s)
        block.body = body
    return changed


BroadcastPass = new_pass("tapegrad_broadcast", _stack_operands)
