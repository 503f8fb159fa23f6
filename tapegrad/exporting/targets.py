"""Processors that code is exported for."""

from __future__ import annotations

from dataclasses import dataclass

import llvmlite.binding as llvm

from ..codegen.host import LEVELS, enabled, target, vector_variants
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


@dataclass(frozen=True)
class Processor:
    """A processor to make code for, as LLVM names it."""

    triple: str
    cpu: str
    features: str

    @property
    def x86(self):
        return self.triple.startswith("x86_64")

    @property
    def here(self):
        """Whether it is a processor like this one, so that the linker of this system is one for it."""
        return self.triple.split("-")[0] == llvm.get_default_triple().split("-")[0]

    def machine(self, level):
        """LLVM's machine, for code that may lie anywhere (PIC)."""
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        # For `question`.
        llvm.initialize_native_asmparser()
        found = llvm.Target.from_triple(self.triple)
        return found.create_target_machine(cpu=self.cpu, features=self.features, opt=level, reloc="pic", codemodel="default")

    def vectors(self):
        """The functions on vectors of its C library, as `codegen.host.vectorise_calls` takes them."""
        return vector_variants(enabled(self.features)) if self.x86 and "linux" in self.triple else {}

    def question(self):
        """The LLVM text of ``i1 @right_processor()``, which asks once: CPUID takes tens of microseconds in a virtual machine."""
        asked = enabled(self.features) if self.x86 else set()
        lines, held = [], []
        for k, ((leaf, register), bits) in enumerate(_BITS.items()):
            mask = sum(1 << bit for name, bit in bits.items() if name in asked)
            if not mask:
                continue
            lines += [
                f'  %c{k} = call {{ i32, i32, i32, i32 }} asm sideeffect "cpuid", "={{ax}},={{bx}},={{cx}},={{dx}},{{ax}},{{cx}}"(i32 {_signed(leaf)}, i32 0)',
                f"  %w{k} = extractvalue {{ i32, i32, i32, i32 }} %c{k}, {register}",
                f"  %m{k} = and i32 %w{k}, {_signed(mask)}", f"  %h{k} = icmp eq i32 %m{k}, {_signed(mask)}",
            ]  # fmt: skip
            held.append(f"%h{k}")
        saved = (_SAVED_512 if "avx512f" in asked else _SAVED) if "avx" in asked else 0
        if not held:
            return "define internal i1 @right_processor() {\n  ret i1 true\n}\n"
        total = "true"
        for k, one in enumerate(held):
            lines.append(f"  %t{k} = and i1 {total}, {one}")
            total = f"%t{k}"
        if saved:
            # XGETBV exists where the system has said that it uses it: ask only then.
            lines += [
                f"  br i1 {total}, label %saved, label %no", "saved:",
                '  %x = call { i32, i32 } asm sideeffect "xgetbv", "={ax},={dx},{cx}"(i32 0)', "  %xw = extractvalue { i32, i32 } %x, 0",
                f"  %xm = and i32 %xw, {saved}", f"  %xh = icmp eq i32 %xm, {saved}", "  ret i1 %xh", "no:", "  ret i1 false",
            ]  # fmt: skip
        else:
            lines.append(f"  ret i1 {total}")
        return _ONCE + "define internal i1 @processor_asked() noinline {\n" + "\n".join(lines) + "\n}\n"


#: What was answered: 0 before the question, 1 yes, 2 no.  Threads that ask at the same time get the same answer.
_ONCE = """
@processor = internal global i8 0
define internal i1 @right_processor() {
  %known = load atomic i8, ptr @processor monotonic, align 1
  %first = icmp eq i8 %known, 0
  br i1 %first, label %ask, label %answer
ask:
  %right = call i1 @processor_asked()
  %word = select i1 %right, i8 1, i8 2
  store atomic i8 %word, ptr @processor monotonic, align 1
  ret i1 %right
answer:
  %yes = icmp eq i8 %known, 1
  ret i1 %yes
}
"""


def _signed(word):
    return word - (1 << 32) if word >= 1 << 31 else word


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
    if cpu in ("x86-64", "x86-64-v3"):
        here = default.startswith("x86_64")
        return Processor(default if here else "x86_64-unknown-linux-gnu", cpu, LEVELS[cpu])
    if cpu == "aarch64":
        here = default.startswith(("aarch64", "arm64"))
        return Processor(default if here else "aarch64-unknown-linux-gnu", "generic", "")
    raise OptionError(f'cpu={cpu!r}: choose "host", "x86-64", "x86-64-v3" or "aarch64"')
