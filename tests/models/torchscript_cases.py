"""Expressions of TorchScript that are held against torch one by one. Letters are inputs: f,
g floats (2, 3, 4); h floats (4, 5); v, w floats (4); i, j integers and b, c truth values (2, 3, 4);
d float64, n int32 (3, 4); s a float and k an integer without axes; m images (2, 4, 6, 6); p
positive floats; F is torch.nn.functional.
"""

from __future__ import annotations

import torch

_MAKE = torch.Generator().manual_seed(3)


def _floats(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=_MAKE)


def _ints(low: int, high: int, *sizes: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.randint(low, high, sizes, generator=_MAKE, dtype=dtype)


LETTERS = {
    "f": _floats(2, 3, 4), "g": _floats(2, 3, 4), "h": _floats(4, 5), "v": _floats(4),
    "w": _floats(4), "i": _ints(-5, 6, 2, 3, 4), "j": _ints(1, 6, 2, 3, 4),
    "b": _floats(2, 3, 4) > 0, "c": _floats(2, 3, 4) > 0, "d": _floats(3, 4).double(),
    "n": _ints(-9, 9, 3, 4, dtype=torch.int32), "s": _floats(1)[0], "k": _ints(1, 4, 1)[0],
    "m": _floats(2, 4, 6, 6), "p": _floats(2, 3, 4).abs() + 0.1,
}  # fmt: skip
"""Inputs by name."""

_UNARY = (
    *("abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1"),
    *("floor", "frac", "isfinite", "isinf", "isnan", "log1p", "neg", "relu", "round", "selu"),
    *("sigmoid", "sign", "sin", "sinh", "square", "tan", "tanh", "trunc", "logical_not", "signbit"),
)
_POSITIVE = ("log", "log2", "log10", "sqrt", "rsqrt", "reciprocal")
_BINARY = ("add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge", "maximum", "minimum",
           "fmod", "remainder", "floor_divide", "atan2", "hypot")  # fmt: skip
_WHOLE = ("bitwise_and", "bitwise_or", "bitwise_xor")

_LINES = """\
f + 1
i + 1
i + 1.5
i * True
b + 1
b * 2.0
f + s
i + s
i + k
d + f
n + i[0]
n + 2
n + 1.5
n / 2
n // 2
i / j
i // 2
i % 3
f % 2
2 - f
3 / p
2 ** f
f ** 2
i ** 2
-f
f - v
b & c
b | c
~b
torch.rsub(f, 2.0, alpha=3)
torch.add(f, g, alpha=2)
torch.div(f, g, rounding_mode='floor')
f @ h
d.float() @ h
torch.div(i, j, rounding_mode='trunc')
f == 0
i == k
torch.where(b, f, g)
torch.where(b, f, 0.0)
torch.where(b, i, 1.5)
torch.where(b, 1.0, 2.0)
f.clamp(-1, 1)
f.clamp(min=0)
i.clamp(0.5, 2)
f.clamp(max=g)
torch.lerp(f, g, 0.3)
torch.addcmul(f, g, f, value=0.5)
torch.pow(p, g)
torch.pow(2, i.abs())
f.float()
f.int()
i.float()
f.to(torch.bool)
f.double()
f.half()
f.to(torch.int32)
f.to(d)
f.type_as(i)
f.long()
b.int()
torch.nan_to_num(f / 0)
f.sum()
i.sum()
b.sum()
f.sum(1)
f.sum([0, 2], keepdim=True)
f.sum(-1, dtype=torch.float64)
f.mean()
f.mean([1, 2])
f.mean(-1, True)
f.prod()
i.prod(1)
f.std()
f.std(1)
f.var(1, unbiased=False)
f.var([0, 1], unbiased=True, keepdim=True)
torch.std_mean(f, 1)
f.var(dim=1, correction=0)
f.max()
f.min()
f.max(1)[0]
f.max(1)[1]
f.min(-1)
torch.max(f, g)
f.amax([0, 1])
f.amin(-1, keepdim=True)
f.argmax()
f.argmax(1)
f.argmin(-1, keepdim=True)
b.any()
b.all(1)
b.any(-1, keepdim=True)
f.logsumexp(1)
f.norm()
f.norm(2, 1)
f.norm(1.0, -1, True)
f.cumsum(1)
i.cumsum(-1)
b.cumsum(0)
f.cumprod(1)
torch.count_nonzero(b)
s.sum()
s.max()
torch.aminmax(f, dim=1)
f.view(6, 4)
f.view(-1)
f.reshape(2, -1)
f.flatten(1)
f.flatten()
f.unflatten(2, [2, 2])
f.permute(2, 0, 1)
f.transpose(-1, 0)
h.t()
h.T
f.mT
f.unsqueeze(-1)
f.unsqueeze(0).squeeze()
f[:1].squeeze(0)
f[:1].squeeze(1)
f.expand(5, 2, 3, 4)
v.expand(3, -1)
v.expand_as(f)
f.repeat(1, 2, 1)
f.repeat(2, 1, 1, 1)
v.repeat_interleave(2)
f.repeat_interleave(3, dim=1)
f.movedim(0, -1)
f.roll(1, 2)
f.flip([0, 2])
torch.cat([f, g], 1)
torch.cat([f, i], -1)
torch.stack([f, g], -1)
torch.hstack([v, w])
torch.vstack([v, w])
f.chunk(2, -1)
f.chunk(3, 1)[2]
f.split(2, 1)
f.split([1, 2], 1)
f.unbind(1)
torch.tensor_split(f, 3, dim=2)
f.narrow(1, 1, 2)
f.diagonal(0, 1, 2)
torch.tril(h)
torch.triu(h, 1)
torch.meshgrid([v, w], indexing='ij')
torch.broadcast_tensors([v, f])
f.contiguous()
f.clone()
f.detach()
s.unsqueeze(0)
s.reshape(1, 1)
f.numel()
f.dim()
f.size()
f.size(1)
f.shape[-1]
len(f)
f.is_floating_point()
f[0]
f[:, 1]
f[..., -1]
f[:, 1:]
f[:, ::2, 1:3]
f[None, :, 0]
f[b]
f[i.abs() % 2, 0]
f[:, [0, 2]]
f[-1, -1, -1]
f.index_select(1, k.view(1) - 1)
f.gather(1, i.abs() % 3)
f.masked_fill(b, 0.0)
f.masked_select(b)
f.select(1, -1)
f[k - 1 - k]
f.scatter(1, i.abs() % 3, g)
f.scatter_add(1, i.abs() % 3, g)
f.scatter(1, i.abs() % 3, 2.5)
torch.index_put(f, [k.view(1) * 0], g[0:1])
b.nonzero()
torch.where(b)
f.topk(2, -1)
f.sort(1)
f.sort(1, descending=True)[0]
f.argsort(-1)
torch.take_along_dim(f, i.abs() % 3, 1)
torch.bucketize(f, torch.tensor([-1.0, 0.0, 1.0]))
torch._C._nn.one_hot(i.abs(), 6)
torch.zeros([2, 3])
torch.ones([2], dtype=torch.int64)
torch.full([2, 2], 3)
torch.full([2], 1.5)
torch.arange(5)
torch.arange(1, 7, 2)
torch.arange(0.0, 1.0, 0.25)
torch.arange(3, dtype=torch.float32)
torch.linspace(0.0, 1.0, 5)
torch.eye(3)
torch.zeros_like(f)
torch.ones_like(i)
torch.full_like(f, 2)
torch.zeros_like(i, dtype=torch.float32)
f.new_zeros([2, 3])
i.new_ones([2])
f.new_full([2], 1)
torch.tensor([1, 2])
torch.tensor([[1.0], [2.0]])
torch.tensor(3)
torch.tensor([f.size(0), 2])
torch.scalar_tensor(2)
torch.arange(f.size(1))
torch.zeros([f.size(0), 3])
torch.empty([0, 3])
torch.arange(v.size(0), dtype=torch.float64)
torch.softmax(f, -1)
torch.softmax(f, 1, dtype=torch.float64)
torch.log_softmax(f, -1)
F.relu(f)
F.gelu(f)
F.gelu(f, approximate='tanh')
F.silu(f)
F.elu(f)
F.leaky_relu(f, 0.2)
F.hardtanh(f)
F.relu6(f)
F.softplus(f)
F.hardswish(f)
F.hardsigmoid(f)
F.mish(f)
F.glu(f)
F.prelu(m, v)
F.logsigmoid(f)
F.softsign(f)
F.tanhshrink(f)
F.softmin(f, 1)
F.celu(f)
F.threshold(f, 0.1, 0.2)
F.normalize(f, dim=1)
F.linear(f, h.t(), None)
F.layer_norm(f, [4], v, w)
F.group_norm(m, 2, v, w)
F.instance_norm(m)
F.batch_norm(m, v, w.abs() + 1)
F.max_pool2d(m, 2)
F.max_pool2d(m, 3, 2, 1)
F.avg_pool2d(m, 2)
F.avg_pool2d(m, [3, 3], [2, 2], [1, 1], ceil_mode=True)
F.adaptive_avg_pool2d(m, [2, 3])
F.adaptive_max_pool2d(m, [2, 3])
F.max_pool1d(f, 2)
F.interpolate(m, scale_factor=2.0, mode='nearest')
F.interpolate(m, size=[9, 5], mode='bilinear', align_corners=False)
F.interpolate(m, scale_factor=2.0, mode='bilinear', align_corners=True)
F.interpolate(m, size=[4, 4], mode='bicubic')
F.pad(m, [1, 1])
F.pad(m, [1, 2, 0, 1], mode='reflect')
F.pad(m, [1, 1], value=2.0)
F.pad(m, [1, 2, 1, 0], mode='replicate')
F.conv2d(m, m[:, :, :3, :3])
F.conv1d(f, g[:, :, :2], None, 1, 1)
F.conv2d(m, m[:, :2, :3, :3], None, [2, 2], [1, 1], [1, 1], 2)
F.conv2d(m, m[:, :, :3, :3], padding='same')
F.conv_transpose2d(m, m.transpose(0, 1)[:, :, :3, :3], None, 2)
F.embedding(i.abs() % 4, h)
F.one_hot(i.abs(), 6)
F.scaled_dot_product_attention(f, g, f)
F.cosine_similarity(f, g, 1)
F.pixel_shuffle(m, 2)
F.unfold(m, 3)
F.grid_sample(m, torch.tanh(m[:, :2].permute(0, 2, 3, 1)), align_corners=False)
F.dropout(f, 0.5, False)
F.channel_shuffle(m, 2)
F.local_response_norm(m, 2)
torch.matmul(f, h)
torch.bmm(f, g.transpose(1, 2))
torch.mm(h, h.t())
torch.mv(h.t(), v)
torch.dot(v, w)
torch.addmm(h, h[:, :4], h)
torch.baddbmm(f @ g.transpose(1, 2), f, g.transpose(1, 2), beta=0.5, alpha=2)
torch.einsum('abc,cd->abd', [f, h])
torch.outer(v, w)
torch.cdist(f, g)
torch.tensordot(f, h, [[2], [0]])
f.size(0) * 2 + 1
f.size(0) / 3
f.size(1) // 2
float(f.size(0))
int(s * 10)
float(s)
bool(s > 0)
s.item()
k.item() + 1
max(f.size(0), 3)
math.sqrt(f.size(2))
math.floor(2.5)
2 ** f.size(0)
[x * 2 for x in [1, 2]]
f * k.item()
i * float(s)
f.view(f.size(0), -1) * f.size(1) ** -0.5
"""
"""Types, reductions, shapes, indices, new tensors, networks, products, numbers."""
EXPRESSIONS = [
    *(f"torch.{name}(f)" for name in _UNARY if name != "signbit"),
    *(f"torch.{name}(p)" for name in _POSITIVE),
    *(f"torch.{name}(f, g)" for name in _BINARY),
    *(f"torch.{name}(i, j)" for name in (*_BINARY[:11], *_WHOLE)),
    *(f"torch.{name}(b, c)" for name in (*_WHOLE, "logical_and", "logical_or", "logical_xor")),
    *_LINES.splitlines(),
]  # fmt: skip
"""What is computed of the letters."""
