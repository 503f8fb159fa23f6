"""What `array.tensor.Tensor` needs of this folder, told to it through the registry."""

from types import SimpleNamespace

from ..common.registry import registry
from .gradients import backward
from .graph import changes_in_jumps, node_of
from .hooks import register_hook, release_grad, retain_grad, retains_grad
from .tape import Tape

registry.engine = SimpleNamespace(
    backward=backward, changes_in_jumps=changes_in_jumps, node_of=node_of, register_hook=register_hook, release_grad=release_grad,
    retain_grad=retain_grad, retains_grad=retains_grad, tape_of=Tape.of,
)
