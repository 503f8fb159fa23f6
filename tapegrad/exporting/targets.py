"""Processors that code is exported for."""

from dataclasses import dataclass

import llvmlite.binding as llvm

from ..codegen.compile import helper
from ..codegen.host import LEVELS, enabled, target, vector_variants
from ..codegen.memory import atomic_load, atomic_store, c_function, load_int
from ..common.errors import OptionError

#: Instruction sets that a processor is asked for: register of CPUID's answer and bit in it, by leaf.
_BITS = {
    (1, 2): {"sse3": 0, "ssse3": 9, "fma": 12, "sse4.1": 19, "sse4.2": 20, "movbe": 22, "popcnt": 23, "avx": 28, "f16c": 29},
    (7, 1): {
        "bmi": 3, "avx2": 5, "bmi2": 8, "avx512f": 16, "avx512dq": 17, "avx512ifma": 21, "avx512cd": 28, "avx512bw": 30, "avx512vl": 31,
    },
    (7, 2): {"avx512vbmi": 1, "avx512vbmi2": 6, "gfni": 8, "vaes": 9, "vpclmulqdq": 10, "avx512vnni": 11, "avx512bitalg": 12, "avx512vpopcntdq": 14},
    (0x80000001, 2): {"lzcnt": 5},
}  # fmt: skip
#: What the system has to save of registers (XCR0), for vectors of 256 and of 512 bits.
_SAVED, _SAVED_512 = 0x6, 0xE6


#: A register after CPUID of a leaf, and the word of XGETBV.
cpuid, xgetbv = c_function("tapegrad_cpuid", "int64", "int64", "int64"), c_function("tapegrad_xgetbv", "int64")


#: By what the triple of such a processor begins with.
_ARCHITECTURES = {"x86-64": ("x86_64",), "x86-64-v3": ("x86_64",), "aarch64": ("aarch64", "arm64")}


@dataclass(frozen=True)
class Processor:
    """A processor to make code for, as LLVM names it."""

    triple: str
    cpu: str
    features: str

    x86 = property(lambda self: self.triple.startswith("x86_64"))

    @property
    def here(self):
        """Whether it is a processor like this one, so that the linker of this system is one for it."""
        return self.triple.split("-")[0] == llvm.get_default_triple().split("-")[0]

    def machine(self, level):
        """LLVM's machine, for code that may lie anywhere (PIC)."""
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        # For the assembly in `question`.
        llvm.initialize_native_asmparser()
        found = llvm.Target.from_triple(self.triple)
        return found.create_target_machine(cpu=self.cpu, features=self.features, opt=level, reloc="pic", codemodel="default")

    def vectors(self):
        """The functions on vectors of its C library, as `codegen.host.vectorise_calls` takes them."""
        return vector_variants(enabled(self.features)) if self.x86 and "linux" in self.triple else {}

    def question(self):
        """The LLVM text of what `right_processor` is given, and of what that calls."""
        asked, words = enabled(self.features) if self.x86 else set(), []
        for (leaf, register), bits in _BITS.items():
            mask = sum(1 << bit for name, bit in bits.items() if name in asked)
            words += [leaf, register, mask] if mask else []
        if "avx" in asked:
            words += [-1, 0, _SAVED_512 if "avx512f" in asked else _SAVED]
        listed = ", ".join(f"i64 {word}" for word in [*words, 0, 0, 0])
        return f"@known = internal global i64 0\n@asked = internal constant [{len(words) + 3} x i64] [{listed}]\n" + (_X86 if self.x86 else _OTHER)


_X86 = """
define i64 @tapegrad_cpuid(i64 %leaf, i64 %register) {
  %words = alloca { i32, i32, i32, i32 }
  %short = trunc i64 %leaf to i32
  %all = call { i32, i32, i32, i32 } asm sideeffect "cpuid", "={ax},={bx},={cx},={dx},{ax},{cx}"(i32 %short, i32 0)
  store { i32, i32, i32, i32 } %all, ptr %words
  %place = getelementptr i32, ptr %words, i64 %register
  %word = load i32, ptr %place
  %wide = zext i32 %word to i64
  ret i64 %wide
}
define i64 @tapegrad_xgetbv() {
  %all = call { i32, i32 } asm sideeffect "xgetbv", "={ax},={dx},{cx}"(i32 0)
  %word = extractvalue { i32, i32 } %all, 0
  %wide = zext i32 %word to i64
  ret i64 %wide
}
"""
#: Nothing is asked.
_OTHER = "".join(f"define i64 @tapegrad_{name} {{\n  ret i64 0\n}}\n" for name in ("cpuid(i64 %leaf, i64 %register)", "xgetbv()"))


@helper
def right_processor(known, asked):
    """Whether the processor has all instruction sets: `asked` has of each answer of CPUID the leaf, the register and the bits, then zeros.

    Leaf -1 is XGETBV, which exists where the system has said that it uses it.  What was answered is `known`, for CPUID takes tens of
    microseconds in a virtual machine: 0 before the question, 1 no, 2 yes.  Threads that ask at the same time get the same answer.
    """
    if atomic_load(known) == 0:
        said = 2
        while said == 2 and load_int(asked + 16) != 0:
            bits = load_int(asked + 16)
            word = xgetbv() if load_int(asked) < 0 else cpuid(load_int(asked), load_int(asked + 8))
            said = 2 if (word & bits) == bits else 1
            asked += 24
        atomic_store(known, said)
    return atomic_load(known) - 1


def named(cpu):
    """The `Processor` of a name.

    Raises
    ------
    OptionError
        If there is none.
    """
    default = llvm.get_default_triple()
    if cpu == "host":
        name, features, _ = target()
        return Processor(default, name, features)
    if cpu not in _ARCHITECTURES:
        raise OptionError(f'cpu={cpu!r}: choose "host", "x86-64", "x86-64-v3" or "aarch64"')
    names = _ARCHITECTURES[cpu]
    triple = default if default.startswith(names) else f"{names[0]}-unknown-linux-gnu"
    return Processor(triple, "generic" if cpu == "aarch64" else cpu, LEVELS.get(cpu, ""))
