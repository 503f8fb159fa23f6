"""The autograd notebook, cell by cell; only the import is changed.

The notebook's second cell was run twice, and what it shows is the error of the
second run. Here its first run retains the graph, so the order of events is:
gradients, gradients again (accumulated, and the graph cleared), the error.
"""

# Computational graphs
import tapegrad as torch

# input
x = torch.ones(5)
# output
y = torch.zeros(3)
# set requires_grad here to track the gradients
# OR you can manually change its attributes later using x.requires_grad_(True) method
w = torch.randn(5, 3, requires_grad=True)
b = torch.randn(3, requires_grad=True)
# signal from the inputs
z = torch.matmul(x, w) + b
# cross entropy loss
loss = torch.nn.functional.binary_cross_entropy_with_logits(z, y)

# These outputs are not human readable
print(f"Gradient function for z: {z.grad_fn}")
print(f"Gradient function for loss: {loss.grad_fn}")

# Actually computing the gradients
# call loss.backward
loss.backward(retain_graph=True)
# view the values of the gradients
print(w.grad)
print(b.grad)

loss.backward()
print(w.grad)
print(b.grad)

try:
    loss.backward()
    print(w.grad)
    print(b.grad)
except RuntimeError as error:
    print(f"RuntimeError: {error}")

# Disable gradient tracking
z = torch.matmul(x, w) + b
print(z.requires_grad)

# to disable tracking
with torch.no_grad():
    z = torch.matmul(x, w) + b
print(z.requires_grad)

# Alternatively, we can also use the detach method
z = torch.matmul(x, w) + b
z_det = z.detach()
print(z_det.requires_grad)

# Extra: tensor gradients
inp = torch.eye(5, requires_grad=True)
# out = some arbitrary tensor output
# adds 1 to inp, and raises it to the power of 2, and transposes it
out = (inp + 1).pow(2).t()

# First call
out.backward(torch.ones_like(inp), retain_graph=True)
print(f"First call\n{inp.grad}")

# Second call
out.backward(torch.ones_like(inp), retain_graph=True)
print(f"Second call\n{inp.grad}")

# Third call, but this time we first zero out the gradients
inp.grad.zero_()
out.backward(torch.ones_like(inp), retain_graph=True)
print(f"Third call, after zeroing out gradients\n{inp.grad}")
