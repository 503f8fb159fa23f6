"""A function evaluated at a point, to be pulled and pushed: what every transformation is a function of.

An `Evaluation` has inputs, outputs and their containers, and a *walk*, which carries derivatives between them:

=================================== =================== ===================================================================
walk                                answers with        made by
=================================== =================== ===================================================================
`autograd.nested.TensorWalk`        tensors             `on_tensors`: inside of another derivative, or where it is recorded
`program.sweeps.StoreWalk`          numbers             a call on a tape of its own, by compiled sweeps
`transforms.replay.directions`      numbers             a replay at a point, by the interpreter or by kernels
=================================== =================== ===================================================================

A transformation is a *body*, a function of an evaluation: it pulls adjoints of the outputs back, pushes tangents of the inputs
forward, and arranges what comes back, or computes with it.  It does not say how: a Jacobian comes by rows, by columns, by colours or
multiplied out at a cut, of whatever walk there is.
"""

import numpy as np

from ..array.differentiable import Differentiable, below, value_below
from ..array.dual import level_of, made, running
from ..array.functions import concatenate, frozen, reshape
from ..array.record import apply, normalise
from ..autograd.nested import TensorWalk, ones_of, split
from ..autograd.recording import check_number, check_result
from ..common.dtypes import check_derivative
from ..common.tree import LEAF, flatten, leaf_names, unflatten
from ..tape.layout import meta_of
from .choosing import predict
from .finish import so_far
from .ports import Port

#: Of so many elements on directions in which a recorded Hessian is computed are joined, if so many times fewer remain.
FEW, LESS = 8, 2
#: Of a recording that is so many times longer than that of the gradient, which is its end, it is not looked for: all of it would be gone through.
LONGER = 8
#: Recorded, a Jacobian comes by columns if there are so many times fewer inputs than outputs.
FEWER = 4


class Evaluation:
    """A function evaluated at a point.

    Parameters
    ----------
    walk : object
        See above.
    argnums : sequence of int
        The arguments that are differentiated.
    one : bool
        Whether what belongs to the arguments is given for one of them, or as a tuple.
    structures : sequence of Structure
        Of these arguments, ascending.

    Attributes
    ----------
    inputs, outputs : list of Port
        The leaves of these arguments, and of the result: each has `shape`, `size` and `char`.
    structure : Structure
        Of the result.
    """

    def __init__(self, walk, argnums=(0,), one=True, structures=()):
        self.walk, self.argnums, self.one, self.structures = walk, argnums, one, structures

    def __enter__(self):
        self.walk.__enter__()
        return self

    def __exit__(self, *exception):
        return self.walk.__exit__(*exception)

    @property
    def inputs(self):
        return list(map(_port, self.walk.bases)) if self.walk.recorded else self.walk.inputs

    @property
    def outputs(self):
        return list(map(_port, self.walk.results)) if self.walk.recorded else self.walk.outputs

    @property
    def structure(self):
        return self.walk.structure

    # -- containers ---------------------------------------------------------------------
    def contained(self, leaves):
        """What there is for each input, in the containers of the arguments."""
        if self.one and len(self.structures) == 1:
            return unflatten(self.structures[0], leaves)
        leaves, parts = iter(leaves), {}
        for k, structure in zip(sorted({*self.argnums}), self.structures):
            parts[k] = unflatten(structure, [next(leaves) for _ in range(structure.count)])
        return parts[self.argnums[0]] if self.one else tuple(parts[k] for k in self.argnums)

    def value(self):
        """The result of the function."""
        return unflatten(self.walk.structure, self.walk.results)

    def out(self, answer):
        """Containers of what a body has computed, as they leave: as numbers if nothing outside has a part in them."""
        leaves, structure = flatten(answer)
        return unflatten(structure, self.walk.out(leaves))

    # -- the results ----------------------------------------------------------------------
    def check(self, which=None, what="the result"):
        """Refuse results without derivative among the first `which`."""
        for result, name in zip(self.walk.results[:which], leaf_names(self.structure)):
            if isinstance(result, Differentiable):
                check_derivative(result, f"{what}{name}")
            else:
                check_result(result, None, f"{what}{name}")

    # -- derivatives ------------------------------------------------------------------------
    def pull(self, seeds, lanes=None):
        """The adjoints of the inputs for adjoints of the outputs (None: zero).

        Parameters
        ----------
        seeds : list
            One for each output, in its shape; behind an axis of extent `lanes`, if that is given, which the adjoints have then, too.
        """
        return self.walk.pull(seeds, lanes)

    def push(self, tangents, lanes=None):
        """The tangents of the outputs for tangents of the inputs, as of `pull`."""
        return self.walk.push(tangents, lanes)

    def gradients(self, has_aux=False, scalar=True):
        """The adjoints of the inputs for the sum of the outputs; with `scalar` that is one number.  With `has_aux` of those of the first part."""
        walk = self.walk
        first = walk.structure.parts[0] if has_aux else walk.structure
        results = walk.results[: first.count]
        if first is LEAF and value_below(results[0]).__class__ is float:
            return walk.pull([1.0])
        self.check(first.count)
        if scalar:
            check_number(results, first)
        return walk.pull(list(map(ones_of, results)))

    def gradient(self, has_aux=False):
        """The evaluation of the gradient of one number at the same point: its outputs are shaped as the inputs."""
        return Evaluation(self.walk.towards(self.gradients(has_aux)), self.argnums, self.one, self.structures)

    def jacobian(self, mode="auto", explain=False, symmetric=False):
        """The blocks of the Jacobian, ``[output][input]``, each of the shape of the output and that of the input behind it.

        Parameters
        ----------
        mode : str
            As of `tapegrad.jacobian`, or "product"; where it is recorded, "auto" is forward mode if there are many fewer inputs than outputs.
        explain : bool
            Whether to print what was chosen, and why.
        symmetric : bool
            Whether it is a Hessian: where it is recorded, elements that have nothing to do with each other share a direction.
        """
        walk = self.walk
        if walk.recorded:
            self.check()
            return (_coloured(walk) if symmetric else None) or self._recorded(mode, symmetric)
        ways = [c for c in walk.compressed() or () if c is not None and mode in ("auto", "forward" if c.forward else "reverse")]
        if ways:
            one = min(ways, key=lambda c: c.count)
            if explain:
                way = "forward mode: its columns have" if one.forward else "reverse mode: its rows have"
                print(f"{way} {one.count} colours, each of which shares no place in the Jacobian")
            return self._from_colours(one)
        why = f"{mode} mode was asked for"
        if mode == "auto" and walk.hooked:
            mode, why = "reverse", "reverse mode, which alone calls the hooks that the function registers"
        chosen = mode
        if mode in ("auto", "product") or explain:
            if walk.prediction is None:
                walk.prediction = predict(walk, mode == "product")
            chosen = walk.prediction.mode if mode == "auto" else mode
            if explain:
                print(walk.prediction.reason if mode == "auto" else f"{why}; {walk.prediction.reason}")
        return self.columns() if chosen == "forward" else self.rows(walk.prediction.cut if chosen == "product" else None)

    def columns(self):
        """The blocks by tangent sweeps."""
        return self._blocks([part.T for part in _split(columns, self.walk.inputs)] for columns in self.walk.columns())

    def rows(self, cut=None):
        """The blocks by reverse sweeps, or multiplied out at a `Cut`."""
        walk = self.walk
        parts = [_split(rows, walk.outputs) for rows in walk.many(cut or False, None)]
        return self._blocks([of_input[k] for of_input in parts] for k in range(len(walk.outputs)))

    def _blocks(self, parts):
        """The blocks out of the parts of the Jacobian, ``[output][input]``."""
        walk = self.walk
        return [[_shaped(part, output, argument) for part, argument in zip(row, walk.inputs)] for row, output in zip(parts, walk.outputs)]

    def _from_colours(self, compressed):
        """The blocks from one seed per colour."""
        walk = self.walk
        results = np.concatenate(walk.along(compressed), axis=1)
        collected, seeded = compressed.coordinates
        whole = np.zeros([sum(p.size for p in ports) for ports in (walk.outputs, walk.inputs)], results.dtype)
        whole[(collected, seeded) if compressed.forward else (seeded, collected)] = results[compressed.colour[seeded], collected]
        return self._blocks(_split(rows, walk.inputs, 1) for rows in _split(whole, walk.outputs))

    def _recorded(self, mode, symmetric):
        """The blocks, on tensors: by columns or by rows."""
        walk = self.walk
        inputs, outputs = ([np.size(getattr(below(t), "_v", t)) for t in side] for side in (walk.bases, walk.results))
        forward = mode == "forward" or mode == "auto" and not symmetric and FEWER * sum(inputs) <= sum(outputs)
        return self._recorded_columns(inputs) if forward else [self._recorded_rows(result) for result in walk.results]

    def _recorded_columns(self, sizes):
        """The blocks by one push of all unit vectors."""
        bases, count = self.walk.bases, sum(sizes)
        units = np.split(np.eye(count), np.cumsum(sizes)[:-1], axis=1)
        tangents = [np.reshape(unit, (count, *b.shape)).astype(b.dtype) for unit, b in zip(units, bases)]
        blocks, ends = [], np.cumsum([0, *sizes])
        for tangent in self.walk.push(tangents, count):
            parts = [tangent[start:end] for start, end in zip(ends, ends[1:])]
            blocks.append([np.reshape(np.moveaxis(part, 0, -1), (*part.shape[1:], *b.shape)) for part, b in zip(parts, bases)])
        return blocks

    def _recorded_rows(self, result):
        """The blocks of one of the results, which are tensors."""
        shape = tuple(np.shape(below(result)))
        size = int(np.prod(shape, dtype=np.int64))
        units = np.eye(size, dtype=getattr(below(result), "dtype", np.dtype("d"))).reshape((size, *shape))
        return [np.reshape(r, (*shape, *b.shape)) for r, b in zip(self.walk.pulled([result], [units], size), self.walk.bases)]


def _port(value):
    """A port like a tensor, dual number or plain value."""
    value = below(value) if isinstance(value, Differentiable) else normalise(np.asarray(value))
    return Port(meta_of(getattr(value, "_v", value)), 0)


def _split(array, ports, axis=0):
    """The parts of an array that belong to ports, one after the other along an axis."""
    return np.split(array, np.cumsum([p.size for p in ports])[:-1], axis)


def _shaped(block, output, argument):
    """One block of the Jacobian, in its shape and dtype."""
    block = block.reshape(output.shape + argument.shape)
    char = "f" if output.char == argument.char == "f" else "d"
    if block.dtype.char != char:
        block = block.astype(char)
    return block if block.ndim else block[()]


def _coloured(walk):
    """The blocks of a Hessian by few directions, of a gradient that is being recorded; None if its pattern is of no help."""
    trace, bases, results = walk.trace, walk.bases, walk.results
    size = sum(b.size for b in bases)
    if trace is None or size < FEW or any(getattr(t, "_t", None) is not trace.store or t.dtype != bases[0].dtype for t in (*bases, *results)):
        return None
    length = trace.store.length
    if length > LONGER * (length - min(b._i for b in bases)):
        return None
    compressions = so_far(trace, bases, results).compressions
    if not compressions.small:
        return None
    way = compressions.symmetric.way
    if LESS * way.count > size:
        return None
    rows = [reshape(r, (way.count, -1)) for r in walk.pull(way.seeds, way.count)]
    entries = reshape(concatenate(rows, axis=1) if len(rows) > 1 else rows[0], (-1,))[compressions.symmetric.places]
    positions, nothing = frozen(np.ravel_multi_index(way.coordinates, (size, size))), np.zeros(size * size, bases[0].dtype)
    matrix = reshape(apply("put", (nothing, entries, positions), (("shape", entries.shape),)), (size, size))
    ends = np.cumsum([0, *(b.size for b in bases)])
    return [[reshape(matrix[i : i + a.size, j : j + b.size], (*a.shape, *b.shape)) for b, j in zip(bases, ends)] for a, i in zip(bases, ends)]


def on_tensors(function, args, argnums, kwargs, one=False):
    """The evaluation of a function on tensors that are there, beside the derivative outside: a context, in which the function has run."""
    walk = TensorWalk(function, args, argnums if len(argnums) == 1 else sorted({*argnums}), kwargs)
    return Evaluation(walk, argnums, one, walk.structures)


def _along(function, duals, lanes):
    """What a function gives for dual numbers of the innermost pass: evaluated on tensors for their primals, and pushed along their tangents.

    None if it uses dual numbers made inside of the pass: of these ours would be part.
    """
    level = running.level
    with on_tensors(function, [d._v for d in duals], range(len(duals)), {}) as e:
        results = e.walk.results
        if any(level_of(result) > level for result in results):
            return None
        parts = [split(result, level) for result in results]
        results = [part for part, *_ in parts]
        live = [k for k, result in enumerate(results) if isinstance(result, Differentiable) and result.dtype.kind == "f"]
        pushed = dict(zip(live, e.walk.towards([results[k] for k in live]).push([d._d for d in duals], lanes)))
        for k, (value, captured, _) in enumerate(parts):
            # What the function has from dual numbers that are no arguments moves with these.
            moved = [part for part in (pushed.get(k), captured) if part is not None]
            if moved:
                results[k] = made(*e.walk.out([value, sum(moved[1:], moved[0])]), lanes, level)
        return unflatten(e.structure, results)


def _of_pass(body, function, args, argnums, kwargs, one, ahead):
    """`applied` where arguments are dual numbers of the innermost pass, with numbers for their parts; else None."""
    leaves, structure = flatten((*ahead, *(args[k] for k in argnums)))
    at = [k for k, leaf in enumerate(leaves) if level_of(leaf) == running.level]
    duals = [leaves[k] for k in at]
    if not at or any(isinstance(part, Differentiable) for d in duals for part in (d.value, d._d)):
        return None

    def of_values(*values):
        values, inner = dict(zip(at, values)), list(args)
        given = unflatten(structure, [values.get(k, leaf) for k, leaf in enumerate(leaves)])
        for k, arg in zip(argnums, given[len(ahead) :]):
            inner[k] = arg
        return applied(body, function, inner, argnums, kwargs, one, given[: len(ahead)])

    return _along(of_values, duals, duals[0].lanes)


def applied(body, function, args, argnums, kwargs, one=False, ahead=()):
    """What a `body` computes on tensors, of the evaluation and what goes ahead: containers, as they leave."""
    found = _of_pass(body, function, args, argnums, kwargs, one, ahead) if running.level else None
    if found is not None:
        return found
    with on_tensors(function, args, argnums, kwargs, one) as e:
        return e.out(body(e, *ahead))
