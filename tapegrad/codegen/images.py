"""Machine code as it lies in memory, loaded without LLVM.

LLVM makes relocatable object code (ELF), and its own linker, which has to be loaded
and asked, takes most of the time of a process that only wants code it has compiled
before.  So object code is linked once, as far as can be without knowing where it will
lie, and kept as an *image*::

    b"TGIMAGE1"
    description         in JSON, after its length: names, and how many there are of what follows
    places, targets     int64: where an address inside the image stands, and of what
    places              int64: where addresses of functions outside stand, one function after the other
    bytes

The bytes are the sections in one piece.  What is left is to write eight-byte
addresses, those of places in the image and those of functions outside, into it:
the code model is the large one, which has no other relocations.  `load` copies the
bytes into memory of the process, writes the addresses, and makes it executable and
read-only.  It stays for the life of the process.  Of a loop that calls ``exp``::

    exported {"kernel": 0}    inside 1    outside {"exp": 1}
    places [18], targets [512]          at byte 18 goes the address of byte 512: a constant
    places [40]                         at byte 40 goes that of exp
    bytes                               ... movabs rax, 0 ... call rax ...

`codegen.code` keeps images on disk and has them loaded.

Only ELF of x86-64, and only code without variables (ours has none; everything it
writes to comes as an argument).  Of anything else `of_object` makes no image, and LLVM
links it (`codegen.llvm`).  Tables for unwinding are left out: nothing in our code
raises, and no exception passes through it.
"""

from __future__ import annotations

import ctypes
import json
import struct
import sys
from functools import cache

import numpy as np

from . import symbols

_MAGIC = b"TGIMAGE1"
_PAGE = 4096

# Of the ELF format (System V ABI, and its supplement for AMD64).
#: How a file of 64 bits, low bytes first, begins; its type and machine: relocatable (ET_REL), x86-64 (EM_X86_64).
_ELF, _KIND = b"\x7fELF\x02\x01", (1, 62)
#: Where the header says its type, where the section headers begin; how large they are, how many, and which has their names.
_TYPE_AT, _SECTIONS_AT, _COUNTS_AT = 16, 40, 58
#: A section header: name, kind, flags, address, offset, size, link, info, alignment, size of an entry.
_SECTION = struct.Struct("<IIQQQQIIQQ")
#: A symbol: name, binding and type, visibility, section, value, size.
_SYMBOL = struct.Struct("<IBBHQQ")
#: A relocation: offset, symbol and type, addend.
_RELOCATION = struct.Struct("<QQq")
#: Kinds of sections: SYMTAB, RELA, NOBITS, REL, X86_64_UNWIND.
_TABLE, _RELA, _NOBITS, _REL, _UNWIND = 2, 4, 8, 9, 0x70000001
#: Flags of sections: WRITE, ALLOC, TLS.
_WRITE, _ALLOC, _THREAD = 1, 2, 0x400
#: A symbol that is a global function (STB_GLOBAL, STT_FUNC); the relocation R_X86_64_64.
_FUNCTION, _ABSOLUTE64 = 0x12, 1
_WORD = struct.Struct("<Q")


def of_object(code):
    """The image of relocatable object code, or None if it must be linked by LLVM."""
    if sys.platform != "linux" or code[:6] != _ELF or struct.unpack_from("<HH", code, _TYPE_AT) != _KIND:
        return None
    try:
        return _Object(code).image()
    except _Unlinked:
        return None


class _Unlinked(Exception):
    """Something that images do not have."""


class _Object:
    """Object code being linked."""

    def __init__(self, code):
        self.code = code
        (start,) = struct.unpack_from("<Q", code, _SECTIONS_AT)
        size, count, names = struct.unpack_from("<HHH", code, _COUNTS_AT)
        self.sections = [_SECTION.unpack_from(code, start + size * k) for k in range(count)]
        self.names = [self._text(self.sections[names][4], section[0]) for section in self.sections]
        #: Number of a section -> where it begins in the image.
        self.starts = {}
        self.bytes = bytearray()

    def _text(self, table, offset):
        return self.code[table + offset : self.code.index(0, table + offset)].decode()

    def image(self):
        """The whole image."""
        for k, (_, kind, flags, _, offset, size, _, _, align, _) in enumerate(self.sections):
            if not flags & _ALLOC or not size or kind == _UNWIND or self.names[k] == ".eh_frame":
                continue
            if flags & (_WRITE | _THREAD) or kind == _NOBITS or align > _PAGE:
                raise _Unlinked
            self.bytes += bytes(-len(self.bytes) % max(align, 1))
            self.starts[k] = len(self.bytes)
            self.bytes += self.code[offset : offset + size]
        (table,) = [s for s in self.sections if s[1] == _TABLE]
        self.text = self.sections[table[6]][4]
        symbols = [_SYMBOL.unpack_from(self.code, table[4] + _SYMBOL.size * k) for k in range(table[5] // _SYMBOL.size)]
        exported = {
            self._text(self.text, name): self.starts[section] + value
            for name, info, _, section, value, _ in symbols
            if info == _FUNCTION and section in self.starts
        }
        inside, outside = [], {}
        for _, kind, _, _, offset, size, _, target, _, _ in self.sections:
            if target not in self.starts or kind not in (_RELA, _REL):
                continue
            if kind == _REL:
                raise _Unlinked
            for at in range(offset, offset + size, _RELOCATION.size):
                position, about, addend = _RELOCATION.unpack_from(self.code, at)
                if about & 0xFFFFFFFF != _ABSOLUTE64:
                    raise _Unlinked
                name, _, _, section, value, _ = symbols[about >> 32]
                position += self.starts[target]
                if section in self.starts:
                    inside.append((position, self.starts[section] + value + addend))
                elif section == 0 and name and not addend:
                    outside.setdefault(self._text(self.text, name), []).append(position)
                else:
                    raise _Unlinked
        counts = {name: len(positions) for name, positions in outside.items()}
        about = {"exported": exported, "inside": len(inside), "outside": counts}
        head = json.dumps(about).encode()
        numbers = [position for position, _ in inside] + [target for _, target in inside] + sum(outside.values(), [])
        return _MAGIC + _WORD.pack(len(head)) + head + np.array(numbers, np.int64).tobytes() + bytes(self.bytes)


def is_image(code):
    """Whether this is what `of_object` made."""
    return code[:8] == _MAGIC


def load(image, names):
    """Put an image into memory; the addresses of the functions wanted."""
    (length,) = _WORD.unpack_from(image, 8)
    about = json.loads(image[16 : 16 + length])
    inside, outside = about["inside"], about["outside"]
    numbers = np.frombuffer(image, np.int64, 2 * inside + sum(outside.values()), 16 + length)
    start = 16 + length + numbers.nbytes
    base = _take(len(image) - start)
    code = np.frombuffer((ctypes.c_uint8 * (len(image) - start)).from_address(base), np.uint8)
    code[:] = np.frombuffer(image, np.uint8, offset=start)
    targets = [numbers[inside : 2 * inside] + base]
    targets += [np.full(count, symbols.address(name), np.uint64).view(np.int64) for name, count in outside.items()]
    places = np.concatenate([numbers[:inside], numbers[2 * inside :]])
    code[places[:, None] + np.arange(8)] = np.concatenate(targets)[:, None].view(np.uint8)
    _seal(base, len(code))
    return [base + about["exported"][name] for name in names]


# ---- memory ----------------------------------------------------------------------------

# Linux's PROT_READ, PROT_WRITE, PROT_EXEC; MAP_PRIVATE, MAP_ANONYMOUS.
_READ, _WRITABLE, _EXECUTE = 1, 2, 4
_PRIVATE, _ANONYMOUS = 2, 0x20
_FAILED = ctypes.c_void_p(-1).value


@cache
def _calls():
    """``mmap`` and ``mprotect``."""
    library = ctypes.CDLL(None, use_errno=True)
    mmap, mprotect = library.mmap, library.mprotect
    mmap.restype = ctypes.c_void_p
    mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return mmap, mprotect


def _take(size):
    """Address of new pages that can be written."""
    address = _calls()[0](None, size, _READ | _WRITABLE, _PRIVATE | _ANONYMOUS, -1, 0)
    if address == _FAILED:
        raise MemoryError(f"no {size} bytes for machine code (errno {ctypes.get_errno()})")
    return address


def _seal(address, size):
    """Make pages executable and read-only."""
    if _calls()[1](address, size, _READ | _EXECUTE):
        raise OSError(ctypes.get_errno(), "this system lets no memory become machine code")
