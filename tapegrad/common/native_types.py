"""Types of CPython's own making, with fields behind those of ``object`` and machine code in their slots: by a description, with ``PyType_FromSpec``.

What is described is public: ``PyType_Spec``, ``PyType_Slot``, ``PyMemberDef`` and ``PyGetSetDef``, and the numbers of slots and kinds of
members, which the stable ABI fixes.  A type made so is like one of a class statement: names can be set on it, and it can be derived from.
"""

import ctypes

#: Numbers of slots (``typeslots.h``).
_SLOTS = {
    "dealloc": 52, "traverse": 71, "clear": 51, "members": 72, "properties": 73, "doc": 56, "add": 7, "subtract": 36, "multiply": 29,
    "divide": 37, "power": 33, "negative": 30, "absolute": 6, "matmul": 75, "update add": 14, "update subtract": 23, "update multiply": 18,
    "update divide": 24, "update power": 20,
}  # fmt: skip
#: Kinds of members: an object (AttributeError where there is none), a truth value, an integer.
OBJECT, BOOL, INTEGER = 16, 14, 19
#: Flags: it can be derived from; the collector goes through its objects.
_BASE_TYPE, COLLECTED = 1 << 10, 1 << 14


class _Slot(ctypes.Structure):
    _fields_ = [("slot", ctypes.c_int), ("function", ctypes.c_void_p)]


class _Spec(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("size", ctypes.c_int), ("item", ctypes.c_int), ("flags", ctypes.c_uint), ("slots", ctypes.POINTER(_Slot)),
    ]  # fmt: skip


class _Member(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("kind", ctypes.c_int), ("offset", ctypes.c_ssize_t), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p),
    ]  # fmt: skip


class _Property(ctypes.Structure):
    _fields_ = [(name, ctypes.c_char_p if name in ("name", "doc") else ctypes.c_void_p) for name in ("name", "get", "set", "doc", "closure")]


class MethodDef(ctypes.Structure):
    """``PyMethodDef``."""

    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


#: A method is called with the object, the address of its arguments, their number, and the names of those that are given by name.
_FASTCALL_WITH_NAMES = 0x80 | 0x02
_new_method = ctypes.pythonapi.PyDescr_NewMethod
_new_method.argtypes, _new_method.restype = [ctypes.py_object, ctypes.POINTER(MethodDef)], ctypes.py_object
_from_spec = ctypes.pythonapi.PyType_FromSpecWithBases
_from_spec.argtypes, _from_spec.restype = [ctypes.POINTER(_Spec), ctypes.py_object], ctypes.py_object
#: What CPython goes on reading as long as the types live.
_KEPT = []


def made(name, base, size, slots, flags=0, members=(), value=None, doc=None):
    """A type.

    Parameters
    ----------
    name : str
        With its module.
    base : type
    size : int
        Bytes of an object.
    slots : dict of str to int
        Name of a slot -> address of its function.
    flags : int
        0, or `COLLECTED`.
    members : sequence of (str, int, int, bool)
        Name, kind, offset in the object, whether it is read-only.
    value : (str, int, int), optional
        A property: its name, and the addresses of the functions that get and set it.
    doc : str, optional

    Returns
    -------
    type
    """
    tables = {}
    if members:
        tables["members"] = (_Member * (len(members) + 1))(*[_Member(n.encode(), kind, offset, int(fixed)) for n, kind, offset, fixed in members])
    if value is not None:
        tables["properties"] = (_Property * 2)(_Property(value[0].encode(), *value[1:]))
    if doc is not None:
        tables["doc"] = ctypes.create_string_buffer(doc.encode())
    slots = slots | {name: ctypes.addressof(table) for name, table in tables.items()}
    described = (_Slot * (len(slots) + 1))(*[_Slot(_SLOTS[slot], address) for slot, address in slots.items()])
    spec = _Spec(name.encode(), size, 0, _BASE_TYPE | flags, described)
    _KEPT.extend((*tables.values(), described, spec))
    return _from_spec(ctypes.byref(spec), (base,))


def copied(cls, size, slots):
    """A class of Python that adds no fields to its base, as a native type with these slots (`made`)."""
    native = made(f"{cls.__module__}.{cls.__qualname__}", cls.__base__, size, slots, 0, doc=cls.__doc__)
    for name, thing in vars(cls).items():
        if name not in ("__dict__", "__weakref__", "__slots__", "__doc__", "__module__"):
            setattr(native, name, thing)
    return native


def method_of(cls, name, address):
    """A method of a type whose code is at an address."""
    described = MethodDef(name.encode(), address, _FASTCALL_WITH_NAMES, None)
    _KEPT.append(described)
    return _new_method(cls, ctypes.byref(described))
