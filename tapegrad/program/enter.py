"""The way in from Python: objects are read by CPython's C API, an executable runs, numbers come back as objects.

`enter` knows nothing of what the arguments mean.  It is given a *site*, words that say what each leaf has to be (`CallSite`
writes them, and makes the Python around a call: `transforms.replay.site`), and tuples of leaves and of arrays for results.
It has the interpreter's lock while it touches objects, and gives it back while the executable runs.

A call needs a *frame*, memory that belongs to it::

    word                          number of views (Py_buffer) that have to be released
    words                         addresses of the inputs: leaves first, then what is fixed
    words                         addresses of the outputs
    doubles                       the leaves that are numbers
    doubles                       the results that are numbers
    views                         of leaves and results
    bytes                         outputs that are not used
"""

from ..codegen import python_api as A
from ..codegen.compile import compiled
from ..codegen.memory import allocate, double_at, int_at, load_byte, load_int32, release, set_double_at, set_int_at, store_float
from ..codegen.python_api import (
    as_double,
    drop,
    forget,
    get_buffer,
    lock,
    new_float,
    new_int,
    new_tuple,
    raised,
    release_buffer,
    set_tuple_item,
    tuple_item,
    tuple_size,
    type_of,
    unlock,
)
from ..interpreter.calls import helper
from .executable import run
from .ports import FINE, OTHER

# Words of a site.
#
# S_EXECUTABLE             its words (`program.executable`)
# S_ARRAY                  the address of the type of arrays
# S_LEAVES, S_FIXED        numbers of inputs that are leaves, and of further ones that every call is given
# S_OUTPUTS, S_NUMBERS     numbers of outputs of the executable, of results that are numbers
# S_RESULTS                how many arrays the call brings for results
# S_FRAME                  bytes of a frame
# S_CALLS                  how often the executable runs, each time with other fixed inputs and for other parts of the results
# S_SPEC, S_TABLES         addresses: what the leaves have to be; for each run the addresses of what is fixed, and for each
#                          output a place (the number of a result, NUMBER, NOWHERE) and the byte there
S_EXECUTABLE, S_ARRAY, S_LEAVES, S_FIXED, S_OUTPUTS, S_NUMBERS, S_RESULTS, S_FRAME, S_CALLS, S_SPEC, S_TABLES = range(11)
SITE = 11
NUMBER, NOWHERE = -1, -2

#: Words of a leaf's spec: types of numbers that it may be (0: none), whether it may be an array, the character of its
#: dtype, bytes of an item, number of axes; then the extents.
L_TYPE, L_OTHER, L_ARRAY, L_CHAR, L_SIZE, L_AXES, L_EXTENTS = range(7)


def frame_size(leaves, fixed, outputs, numbers, results, scratch):
    """Bytes of a frame: its first word, inputs, outputs, numbers, results, views, scratch."""
    return 8 * (1 + leaves + fixed + outputs + leaves + numbers) + A.VIEW * (leaves + results) + scratch


@helper
def _data(frame, views, thing, flags):
    """The address of the data of an object, of which a view is held from now on; -1 if it has none like that."""
    held = int_at(frame, 0)
    view = views + A.VIEW * held
    if get_buffer(thing, view, flags) != 0:
        forget()
        return -1
    set_int_at(frame, 0, held + 1)
    return int_at(view + A.DATA, 0)


@helper
def _fits(view, spec):
    """Whether the array that a view shows is as a spec says."""
    form, axes = int_at(view + A.FORMAT, 0), int_at(spec, L_AXES)
    if load_byte(form) != int_at(spec, L_CHAR) or load_byte(form + 1) != 0 or load_int32(view + A.AXES) != axes:
        return False
    extents = int_at(view + A.EXTENTS, 0)
    for k in range(axes):
        if int_at(extents, k) != int_at(spec, L_EXTENTS + k):
            return False
    return int_at(view + A.DATA, 0) & (int_at(spec, L_SIZE) - 1) == 0


@helper
def _read(site, frame, leaves, inputs, numbers, views):
    """Write the addresses of the leaves to `inputs`; False if one is not as it has to be."""
    count = int_at(site, S_LEAVES)
    if tuple_size(leaves) != count:
        forget()
        return False
    spec = int_at(site, S_SPEC)
    for k in range(count):
        leaf = tuple_item(leaves, k)
        # Compared only, so that it may be gone.
        kind = type_of(leaf)
        drop(kind)
        if kind == int_at(spec, L_TYPE) or kind == int_at(spec, L_OTHER):
            number = as_double(leaf)
            if number == -1.0 and raised() != 0:
                forget()
                return False
            if int_at(spec, L_SIZE) == 4:
                store_float(numbers + 8 * k, number)
            else:
                set_double_at(numbers, k, number)
            set_int_at(inputs, k, numbers + 8 * k)
        elif kind == int_at(site, S_ARRAY) and int_at(spec, L_ARRAY) != 0:
            address = _data(frame, views, leaf, A.READ)
            if address == -1 or not _fits(views + A.VIEW * (int_at(frame, 0) - 1), spec):
                return False
            set_int_at(inputs, k, address)
        else:
            return False
        spec += 8 * (L_EXTENTS + int_at(spec, L_AXES))
    return True


@helper
def _call(site, frame, leaves, results, numbers_out):
    """Read the leaves and run the executable; returns the status."""
    count, fixed, outputs = int_at(site, S_LEAVES), int_at(site, S_FIXED), int_at(site, S_OUTPUTS)
    inputs = frame + 8
    table = inputs + 8 * (count + fixed)
    numbers = table + 8 * outputs
    views = numbers_out + 8 * int_at(site, S_NUMBERS)
    arrays = int_at(site, S_RESULTS)
    if not _read(site, frame, leaves, inputs, numbers, views):
        return OTHER
    first = int_at(frame, 0)
    for k in range(arrays):
        result = tuple_item(results, k)
        if result == 0 or _data(frame, views, result, A.WRITE) == -1:
            forget()
            return OTHER
    scratch = views + A.VIEW * (count + arrays)
    at = int_at(site, S_TABLES)
    executable, calls = int_at(site, S_EXECUTABLE), int_at(site, S_CALLS)
    thread = unlock()
    status = FINE
    for _ in range(calls):
        for k in range(fixed):
            set_int_at(inputs, count + k, int_at(at, 0))
            at += 8
        for k in range(outputs):
            place = int_at(at, 0)
            base = numbers_out if place == NUMBER else scratch
            if place >= 0:
                base = int_at(views + A.VIEW * (first + place) + A.DATA, 0)
            set_int_at(table, k, base + int_at(at, 1))
            at += 16
        status = run(executable, inputs, table)
        if status != FINE:
            break
    lock(thread)
    return status


@compiled("object(int64, object, object)")
def enter(site, leaves, results):
    """Call an executable.

    Parameters
    ----------
    site : address of the words of a site
    leaves : tuple
        Of objects, which are read as the site says.
    results : tuple of ndarray
        C-contiguous, of the shapes and dtypes that the site was made for; not checked.

    Returns
    -------
    tuple or int
        The results that are numbers, as floats; or the status, if that is not FINE.
    """
    frame = allocate(int_at(site, S_FRAME))
    set_int_at(frame, 0, 0)
    count, numbers = int_at(site, S_LEAVES), int_at(site, S_NUMBERS)
    out = frame + 8 + 8 * (2 * count + int_at(site, S_FIXED) + int_at(site, S_OUTPUTS))
    status = _call(site, frame, leaves, results, out)
    views = out + 8 * numbers
    for k in range(int_at(frame, 0)):
        release_buffer(views + A.VIEW * k)
    if status == FINE:
        answer = new_tuple(numbers)
        for k in range(numbers):
            number = new_float(double_at(out, k))
            if answer == 0 or number == 0 or set_tuple_item(answer, k, number) != 0:
                # No memory: the exception is set.
                release(frame)
                if answer != 0:
                    drop(answer)
                return 0
    else:
        answer = new_int(status)
    release(frame)
    return answer
