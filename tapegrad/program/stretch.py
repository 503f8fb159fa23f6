"""Iterations of a loop one after another: forward (`advance`), keeping carries on the way, and back (`pull`), from those that are kept.

`program.iterations` says what a loop is, and what is kept of it.  Here are the words of a run, and of a path.  As many iterations as possible
run on one path by one call (`iterations`; of a path that is a kernel `kernel.emit`); the carries that are kept side by side are written there
by the iterations themselves.
"""

from ..codegen.compile import compiled, helper
from ..codegen.memory import call3_int, call4_int, copy_bytes, double_at, int_at, load_byte, set_double_at, set_int_at, store_byte
from ..rules.loops import CAPTURED_BAR, CARRY, CARRY_BAR, NEXT, NEXT_BAR, ROW_NUMBER
from .executable import X_CODE, give_back, taken
from .ports import FINE

#: What a run ends with: so many iterations as were asked for; a path that stops; no path's guards hold; something that compiled code does
#: not know; memory that there is not; an interruption.
MORE, STOPPED, NO_PATH, UNKNOWN, NO_MEMORY, INTERRUPTED = range(6)

#: Words of a run: the next iteration, how many there may be, and at which it began; the path taken last; the number of paths, their table; two
#: rows for carries (or adjoints of carries), and bytes of one; the number of the row of the first iteration, and its step from iteration to iteration;
#: carries that are kept: capacity, number, stride, the iteration from which on all are, place; the path of each iteration from one
#: on, and for how many there is room.  Of the way back: the sums of adjoints of captured values.
#: The blocks of the paths, tables of addresses, with what status a path has ended.  Then the bases, as they are in the first iteration
#: of several on one path, and how far each goes on from iteration to iteration; two are exchanged before (`rules.loops.PARTNER`).
(
    T_ITERATION, T_LIMIT, T_BEGIN, T_RECENT, T_PATHS, T_TABLE, T_ROWS, T_WIDTH, T_FIRST, T_STEP, T_CAPACITY, T_KEPT, T_STRIDE,
    T_DENSE, T_STORE, T_LOG, T_FROM, T_LOGGED, T_SUMS, T_BLOCKS, T_SCRATCH, T_STATUS, T_BASES,
) = range(23)  # fmt: skip
#: How many bases there are.
BASES = 11
T_STEPS = T_BASES + BASES
RUN_WORDS = T_STEPS + BASES
#: Words of a path: its executable; the address of ``int64 iterations(run, path, block, count)``, which runs so many iterations on it, or fewer, and
#: returns how many; whether it stops; then lists, with their lengths: (base, offset, stride) of inputs and of outputs, (base, offset, stride,
#: bytes, address) of constants, and (offset, offset in the sums, length) of the adjoints of captured values that it has.
P_EXECUTABLE, P_TURNS, P_STOPS, P_LISTS = range(4)
#: After all iterations.
NEVER = 1 << 62


# ---- iterations on one path -----------------------------------------------------------------


@helper
def _address(p, words):
    """Of a place in this iteration, given as base, offset and stride."""
    row = int_at(p, T_BASES + ROW_NUMBER)
    return int_at(p, T_BASES + int_at(words, 0)) + int_at(words, 1) + int_at(words, 2) * row


@helper
def _table(p, words, at, table):
    """Write a table of addresses; returns where the list has ended."""
    count = int_at(words, at)
    for k in range(count):
        set_int_at(table, k, _address(p, words + 8 * (at + 1 + 3 * k)))
    return at + 1 + 3 * count


@helper
def _exchange(p, one, other):
    one, other = p + 8 * (T_BASES + one), p + 8 * (T_BASES + other)
    before = int_at(one, 0)
    set_int_at(one, 0, int_at(other, 0))
    set_int_at(other, 0, before)


@compiled("int64(int64, int64, int64, int64)")
def iterations(p, words, block, count):
    """So many iterations on a path that the interpreter runs (`kernel.emit` has it of a kernel); returns how many there were."""
    code, inputs = int_at(int_at(words, P_EXECUTABLE), X_CODE), int_at(p, T_SCRATCH)
    outputs = inputs + 8 * int_at(words, P_LISTS)
    part, sums = int_at(p, T_BASES + CAPTURED_BAR), int_at(p, T_SUMS)
    done, status = 0, FINE
    while done < count:
        at = _table(p, words, _table(p, words, P_LISTS, inputs), outputs)
        end = at + 1 + 5 * int_at(words, at)
        for row in range(words + 8 * (at + 1), words + 8 * end, 40):
            copy_bytes(_address(p, row), int_at(row, 4), int_at(row, 3))
        status = call3_int(code, inputs, outputs, block)
        if status != FINE:
            break
        for row in range(words + 8 * (end + 1), words + 8 * (end + 1 + 3 * int_at(words, end)), 24):
            of_iteration, total = part + int_at(row, 0), sums + int_at(row, 1)
            for k in range(int_at(row, 2)):
                set_double_at(total, k, double_at(total, k) + double_at(of_iteration, k))
        _exchange(p, CARRY, NEXT)
        _exchange(p, NEXT_BAR, CARRY_BAR)
        for k in range(BASES):
            base = p + 8 * (T_BASES + k)
            set_int_at(base, 0, int_at(base, 0) + int_at(base, BASES))
        done += 1
    set_int_at(p, T_STATUS, status)
    return done


@helper
def place(p, base, address, step):
    """Let a base begin somewhere, and go on by so many bytes (of the number of a row: rows) from iteration to iteration."""
    set_int_at(p, T_BASES + base, address, T_STEPS + base, step)


@helper
def _place_row(p, iteration, direction):
    """Let the number of the row be that of this iteration, to go on forward (1) or back (-1)."""
    step = int_at(p, T_STEP)
    place(p, ROW_NUMBER, int_at(p, T_FIRST) + iteration * step, direction * step)


@helper
def hold(p):
    """Take a block of each path, for as long as this run is in its iterations: (address, what is to be given back) of each."""
    table, blocks = int_at(p, T_TABLE), int_at(p, T_BLOCKS)
    for k in range(int_at(p, T_PATHS)):
        block, mine = taken(int_at(int_at(table, k), P_EXECUTABLE))
        set_int_at(blocks, 2 * k, block, 2 * k + 1, mine)


@helper
def let_go(p):
    """Give these blocks back."""
    at = int_at(p, T_BLOCKS)
    for k in range(int_at(p, T_PATHS)):
        give_back(int_at(at, 1 + 2 * k))


@helper
def _keep(p, iteration, row, width):
    """Keep the carry before this iteration, counted from the first, if it is the iteration of one that is kept; returns where it is (0: nowhere)."""
    capacity, stride = int_at(p, T_CAPACITY), int_at(p, T_STRIDE)
    kept, store, dense = int_at(p, T_KEPT), int_at(p, T_STORE), int_at(p, T_DENSE)
    coarse = _before_dense(p)
    if iteration >= dense:
        store += (coarse + iteration - dense) * width
        copy_bytes(store, row, width)
        return store
    # An iteration that met a new path begins again, and has been kept.
    if coarse == 0 or iteration != kept * stride:
        return 0
    if kept == capacity:
        for k in range(1, (kept + 1) // 2):
            copy_bytes(store + k * width, store + 2 * k * width, width)
        kept = (kept + 1) // 2
        stride *= 2
        set_int_at(p, T_STRIDE, stride, T_KEPT, kept)
        if iteration != kept * stride:
            return 0
    store += kept * width
    copy_bytes(store, row, width)
    set_int_at(p, T_KEPT, kept + 1)
    return store


@helper
def _before_dense(p):
    """For how many carries there is room before those that are all kept."""
    capacity = int_at(p, T_CAPACITY)
    return capacity if int_at(p, T_DENSE) == NEVER else capacity - int_at(p, T_LOGGED)


@helper
def _beside(p, iteration):
    """How many iterations from this one on, whose carry is kept, have carries that are kept one behind the other, with room for one more."""
    dense, coarse = int_at(p, T_DENSE), _before_dense(p)
    if iteration >= dense:
        return int_at(p, T_CAPACITY) - 1 - (coarse + iteration - dense)
    return min(dense, coarse - 1) - iteration if int_at(p, T_STRIDE) == 1 else 0


@helper
def _apart(p, iteration):
    """How many iterations there are from this one to the next one whose carry is kept."""
    dense = int_at(p, T_DENSE)
    if iteration >= dense:
        return 1
    return (min(dense, int_at(p, T_KEPT) * int_at(p, T_STRIDE)) if _before_dense(p) > 0 else dense) - iteration


@compiled("int64(int64)")
def advance(p):
    """Run iterations; returns why it has ended."""
    iteration, limit, begin, width = int_at(p, T_ITERATION), int_at(p, T_LIMIT), int_at(p, T_BEGIN), int_at(p, T_WIDTH)
    paths, table, recent = int_at(p, T_PATHS), int_at(p, T_TABLE), int_at(p, T_RECENT)
    rows, logged, blocks = int_at(p, T_ROWS), int_at(p, T_LOGGED), int_at(p, T_BLOCKS)
    first, log = begin + int_at(p, T_FROM), int_at(p, T_LOG)
    if paths == 0:
        return NO_PATH
    hold(p)
    why, tried = MORE, 0
    while iteration < limit:
        row = rows + (iteration & 1) * width
        at = _keep(p, iteration - begin, row, width)
        count = min(limit - iteration, _beside(p, iteration - begin)) if at != 0 else 0
        if count > 0:
            # Each carry is written where it is kept.
            place(p, CARRY, at, 0)
            place(p, NEXT, at + width, 2 * width)
        else:
            at, count = 0, min(limit - iteration, _apart(p, iteration - begin))
            place(p, CARRY, row, 0)
            place(p, NEXT, rows + (1 - (iteration & 1)) * width, 0)
        _place_row(p, iteration, 1)
        words = int_at(table, recent)
        stops = int_at(words, P_STOPS)
        done = call4_int(int_at(words, P_TURNS), p, words, int_at(blocks, 2 * recent), 1 if stops != 0 else count)
        status = int_at(p, T_STATUS)
        if done > 0:
            tried = 0
            for k in range(max(iteration - first, 0), min(iteration + done - first, logged)):
                store_byte(log + k, recent)
            iteration += done
            if at != 0:
                copy_bytes(rows + (iteration & 1) * width, at + done * width, width)
                if iteration - begin <= int_at(p, T_DENSE):
                    set_int_at(p, T_KEPT, iteration - begin)
        if status >= 0:
            # The iteration goes another way; or none that is known.
            tried += 1
            recent = recent + 1 if recent + 1 < paths else 0
            if tried == paths:
                why = NO_PATH
                break
        elif status != FINE:
            why = UNKNOWN
            break
        elif stops != 0:
            why = STOPPED
            break
    let_go(p)
    set_int_at(p, T_ITERATION, iteration, T_RECENT, recent)
    return why


@helper
def pull(p, low, iteration, store, log):
    """The way back over iterations whose carries are kept, from `iteration` down to `low`, at which rows and log begin."""
    width, table, blocks = int_at(p, T_WIDTH), int_at(p, T_TABLE), int_at(p, T_BLOCKS)
    rows = int_at(p, T_ROWS)
    while iteration > low:
        path, below = load_byte(log + iteration - 1 - low), iteration - 1
        while below > low and load_byte(log + below - 1 - low) == path:
            below -= 1
        if path >= int_at(p, T_PATHS):
            return UNKNOWN
        place(p, CARRY, store + (iteration - 1 - low) * width, -width)
        # It is not written: it goes along, since the two are exchanged.
        place(p, NEXT, store + (iteration - 1 - low) * width, -width)
        place(p, NEXT_BAR, rows + (iteration & 1) * width, 0)
        place(p, CARRY_BAR, rows + (1 - (iteration & 1)) * width, 0)
        _place_row(p, iteration - 1, -1)
        words = int_at(table, path)
        if call4_int(int_at(words, P_TURNS), p, words, int_at(blocks, 2 * path), iteration - below) != iteration - below:
            return UNKNOWN
        iteration = below
    return MORE
