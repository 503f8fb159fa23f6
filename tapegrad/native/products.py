"""Products of small matrices of float64, where the processor has vectors of eight of them.

A library for large matrices brings both factors into an order of its own and chooses its code when
it is loaded; for the sizes of a layer of a network that costs as much as the product.  Here
the columns of the second factor that fill up to four vectors are copied next to each other (with
zeros up to a whole vector), and tiles of the result are summed in registers: a tile
has 16 of them, enough to keep both multipliers of a core busy.  Every element is the sum
over the depth in order, each product rounded together with its addition.

The code has the signature of NumPy's inner loops, ``void loop(char **args, npy_intp *dims, npy_intp *steps,
void *data)``, and the meaning of that of `numpy.matmul`, but that the columns of the
result have to be next to each other.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache

from llvmlite import ir

from .code import machine_code
from .emit import F64, I1, I8, I32, I64
from .host import features

PTR = ir.PointerType()
LANES = 8
VECTOR = ir.VectorType(F64, LANES)
#: Vectors in a row of a tile -> rows of a tile.
ROWS = {4: 4, 2: 8, 1: 8}
#: Depth of a product, at most, and multiplications, at most: above, a library is at its best.
DEPTH, MOST = 256, 1 << 20
_BYTES = 8 * LANES


@cache
def wide():
    """Whether this processor has vectors of eight float64."""
    return "avx512f" in features()


def serves(rows, depth, columns):
    """Whether products of these extents are small ones, and there is code for them."""
    return depth <= DEPTH and rows * depth * columns <= MOST and wide()


@cache
def small_product():
    """Address of the loop."""
    return machine_code("products", lambda: str(_module()), ["loop"])[0]


def _int(value):
    return ir.Constant(I64, value)


@contextmanager
def _counted(b, name, stop, step, *carried):
    """``for i in range(0, stop, step)``; gives the counter, and phis that begin as `carried`, whose next values go into `after`."""
    before, head, body, done = b.block, *(b.append_basic_block(f"{name}.{part}") for part in ("head", "body", "done"))
    b.branch(head)
    b.position_at_end(head)
    phis = [b.phi(value.type) for value in (_int(0), *carried)]
    for phi, value in zip(phis, (_int(0), *carried)):
        phi.add_incoming(value, before)
    b.cbranch(b.icmp_signed("<", phis[0], stop), body, done)
    b.position_at_end(body)
    after = []
    yield phis[0], phis[1:], after
    for phi, value in zip(phis, (b.add(phis[0], step), *after)):
        phi.add_incoming(value, b.block)
    b.branch(head)
    b.position_at_end(done)


def _moved(b, place, nbytes):
    return b.gep(place, [nbytes], inbounds=True, source_etype=I8)


def _vector(b, place, align):
    return b.load(place, typ=VECTOR, align=align)


def _declared(module, name, result, *kinds):
    return module.globals.get(name) or ir.Function(module, ir.FunctionType(result, kinds), name)


def _splat(b, value):
    first = b.insert_element(ir.Constant(ir.VectorType(value.type, LANES), ir.Undefined), value, ir.Constant(I32, 0))
    return b.shuffle_vector(first, ir.Constant(first.type, ir.Undefined), ir.Constant(ir.VectorType(I32, LANES), [0] * LANES))


def _tile(module, vectors, rows):
    """``tile(a, its strides of rows and columns, panel, c, its stride of rows, depth, columns)``: rows of the result."""
    kinds = [PTR, I64, I64, PTR, PTR, I64, I64, I64]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), f"tile_{vectors}_{rows}")
    function.linkage = "internal"
    function.attributes.add("noinline")
    a, a_row, a_column, panel, c, c_row, depth, columns = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    fused = _declared(module, "llvm.fma.v8f64", VECTOR, VECTOR, VECTOR, VECTOR)
    starts = [_moved(b, a, b.mul(a_row, _int(i))) for i in range(rows)]
    zero = ir.Constant(VECTOR, [0.0] * LANES)
    with _counted(b, "depth", depth, _int(1), _int(0), panel, *[zero] * (rows * vectors)) as (_, phis, after):
        offset, place, *sums = phis
        factors = [_vector(b, _moved(b, place, _int(_BYTES * j)), _BYTES) for j in range(vectors)]
        after += [b.add(offset, a_column), _moved(b, place, _int(_BYTES * vectors))]
        for i in range(rows):
            x = _splat(b, b.load(_moved(b, starts[i], offset), typ=F64))
            after += [b.call(fused, [x, y, sums[vectors * i + j]]) for j, y in enumerate(factors)]
    lanes = ir.Constant(ir.VectorType(I64, LANES), list(range(LANES)))
    kept = [b.icmp_signed("<", lanes, _splat(b, b.sub(columns, _int(LANES * j)))) for j in range(vectors)]
    store = _declared(module, "llvm.masked.store.v8f64.p0", ir.VoidType(), VECTOR, PTR, I32, ir.VectorType(I1, LANES))
    for i in range(rows):
        row = _moved(b, c, b.mul(c_row, _int(i)))
        for j in range(vectors):
            b.call(store, [sums[vectors * i + j], _moved(b, row, _int(_BYTES * j)), ir.Constant(I32, 8), kept[j]])
    b.ret_void()
    return function


def _pack(module):
    """``pack(second, its strides of rows and columns, panel, depth, columns, width)``: columns side by side, then zeros."""
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR, I64, I64, PTR, I64, I64, I64]), "pack")
    function.linkage = "internal"
    function.attributes.add("noinline")
    source, row, column, panel, depth, columns, width = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    nbytes, pitch = b.mul(columns, _int(8)), b.mul(width, _int(8))
    along, across = (function.append_basic_block(name) for name in ("along", "across"))
    b.cbranch(b.icmp_signed("==", column, _int(8)), along, across)
    copy = _declared(module, "llvm.memcpy.p0.p0.i64", ir.VoidType(), PTR, PTR, I64, I1)
    clear = _declared(module, "llvm.memset.p0.i64", ir.VoidType(), PTR, I8, I64, I1)
    b.position_at_end(along)
    whole, ragged = (function.append_basic_block(name) for name in ("whole", "ragged"))
    b.cbranch(b.icmp_signed("==", columns, width), whole, ragged)
    b.position_at_end(whole)
    with _counted(b, "vectors", b.mul(depth, pitch), pitch, source) as (at, (place,), after):
        with _counted(b, "vector", pitch, _int(_BYTES)) as (j, _, _):
            b.store(_vector(b, _moved(b, place, j), 8), _moved(b, panel, b.add(at, j)), align=_BYTES)
        after.append(_moved(b, place, row))
    b.ret_void()
    b.position_at_end(ragged)
    with _counted(b, "rows", b.mul(depth, pitch), pitch, source) as (at, (place,), after):
        to = _moved(b, panel, at)
        b.call(clear, [_moved(b, to, nbytes), ir.Constant(I8, 0), b.sub(pitch, nbytes), ir.Constant(I1, 0)])
        b.call(copy, [to, place, nbytes, ir.Constant(I1, 0)])
        after.append(_moved(b, place, row))
    b.ret_void()
    b.position_at_end(across)
    b.call(clear, [panel, ir.Constant(I8, 0), b.mul(depth, pitch), ir.Constant(I1, 0)])
    with _counted(b, "columns", columns, _int(1)) as (j, _, _):
        start, to = _moved(b, source, b.mul(j, column)), _moved(b, panel, b.mul(j, _int(8)))
        with _counted(b, "elements", depth, _int(1)) as (p, _, _):
            b.store(b.load(_moved(b, start, b.mul(p, row)), typ=F64), _moved(b, to, b.mul(p, pitch)))
    b.ret_void()
    return function


def _module():
    module = ir.Module("products")
    pack = _pack(module)
    tiles = {(v, r): _tile(module, v, r) for v, rows in ROWS.items() for r in (rows, 1)}
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR] * 4), "loop")
    args, dims, steps, _ = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    panel = b.alloca(ir.ArrayType(F64, DEPTH * LANES * max(ROWS)))
    panel.align = _BYTES
    # llvmlite still gives it the type of a pointer to an array.
    panel.type = PTR
    starts = [b.load(_moved(b, args, _int(8 * k)), typ=PTR) for k in range(3)]
    count, m, depth, n = (b.load(_moved(b, dims, _int(8 * k)), typ=I64) for k in range(4))
    batch = [b.load(_moved(b, steps, _int(8 * k)), typ=I64) for k in range(3)]
    a_row, a_column, b_row, b_column, c_row = (b.load(_moved(b, steps, _int(8 * k)), typ=I64) for k in range(3, 8))
    with _counted(b, "batch", count, _int(1)) as (item, _, _):
        first, second, result = (_moved(b, start, b.mul(item, step)) for start, step in zip(starts, batch))
        chosen = (a_row, a_column, b_row, b_column, c_row)
        at = _int(0)
        for vectors, rows in ROWS.items():
            at = _stretch(b, pack, tiles, vectors, rows, at, (first, second, result, panel), chosen, (m, depth, n))
    b.ret_void()
    return module


def _stretch(b, pack, tiles, vectors, rows, at, places, strides, extents):
    """Columns from `at` on by panels of so many vectors, as long as they fill more than half of one (or there are some); where it ends."""
    first, second, result, panel = places
    a_row, a_column, b_row, b_column, c_row = strides
    m, depth, n = extents
    width = LANES * vectors
    least = width // 2 if vectors > 1 else 0
    before, head, body, done = b.block, *(b.append_basic_block(f"stretch{vectors}.{part}") for part in ("head", "body", "done"))
    b.branch(head)
    b.position_at_end(head)
    here = b.phi(I64)
    here.add_incoming(at, before)
    left = b.sub(n, here)
    b.cbranch(b.icmp_signed(">", left, _int(least)), body, done)
    b.position_at_end(body)
    columns = b.select(b.icmp_signed("<", left, _int(width)), left, _int(width))
    b.call(pack, [_moved(b, second, b.mul(here, b_column)), b_row, b_column, panel, depth, columns, _int(width)])
    target = _moved(b, result, b.mul(here, _int(8)))
    whole = b.sub(m, b.srem(m, _int(rows)))
    for size, start, stop in ((rows, _int(0), whole), (1, whole, m)):
        with _counted(b, f"rows{size}", b.sub(stop, start), _int(size)) as (i, _, _):
            row = b.add(start, i)
            a, c = _moved(b, first, b.mul(row, a_row)), _moved(b, target, b.mul(row, c_row))
            b.call(tiles[vectors, size], [a, a_row, a_column, panel, c, c_row, depth, columns])
    here.add_incoming(b.add(here, _int(width)), b.block)
    b.branch(head)
    b.position_at_end(done)
    return here
