"""Names of higher folders that lower ones need: a few, each set once by the module that owns it.

Imports point downwards only (CONTRIBUTING.md).  Where code below needs something that lives above it, it
reads it here: ``registry.Tensor`` in `array.record`, say, which makes tensors and which the tensor's own module
imports.  `OWNERS` is the whole list; setting a name twice, or one that is not on the list, is an error.
"""

from typing import TYPE_CHECKING, Any, NamedTuple


class Owner(NamedTuple):
    """The module that sets a name, its value, and its readers."""

    module: str
    kind: str
    purpose: str

    @property
    def home(self) -> str:
        """The dotted name of the module."""
        return f"tapegrad.{self.module}".rstrip(".")


OWNERS = {
    "Tensor": Owner("array.tensor", "type", "the class that recording makes its results of"),
    "IntTensor": Owner("array.whole", "type", "live integers and booleans of a functional recording, a subclass of Tensor"),
    "Dual": Owner("array.dual", "type", "dual numbers: recording leaves operations on them to the class itself"),
    "objects": Owner("array.objects", "namespace", "arrays and lists that hold tensors: joined, stacked, holds_tensors, operand; complex ones"),
    "Call": Owner("autograd.custom.calls", "type", "one call of a user's primitive: an operand without a number"),
    "engine": Owner("autograd", "namespace", "backward passes, hooks and nodes, for the methods of Tensor"),
    "walks": Owner("interpreter.walks", "Walks", "compiled code over memory: pack, saved, reclaim, let_go, native, digest; on_arrays"),
    "later": Owner("", "namespace", "advice, clearer, beside_table (pandas), behind (kernel), namespace (numpy), determined (fits), debug_nans, gradcheck"),
    "guard_message": Owner("transforms.compiled", "function (int, int) -> str", "the text of a GuardError raised in nopython code"),
    "files": Owner("transforms.saving.save", "namespace", "write, to_bytes, from_bytes: finished tapes in files"),
}


class Registry:
    """The names of `OWNERS` as attributes."""

    __slots__ = tuple(OWNERS)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __setattr__(self, name: str, thing: Any) -> None:
        if hasattr(self, name):
            raise AttributeError(f"registry.{name} is set already, by {OWNERS[name].home}")
        super().__setattr__(name, thing)

    def __str__(self) -> str:
        return "\n".join(f"{name:13} {o.kind:28} {o.home}: {o.purpose}" for name, o in OWNERS.items())


registry = Registry()

_ATTACHED: set[tuple[type, str]] = set()


def attach(cls: type, members: dict[str, Any]) -> None:
    """Give a class of a lower file the methods and properties that are defined above it, each name once."""
    for name, member in members.items():
        if (cls, name) in _ATTACHED:
            raise AttributeError(f"{cls.__name__}.{name} is attached already")
        _ATTACHED.add((cls, name))
        setattr(cls, name, member)
