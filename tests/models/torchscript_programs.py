"""Programs of TorchScript that are held against torch: control flow, lists, changes in place. The
letters are those of `torchscript_cases`.
"""

PROGRAMS = {
    "if of a number": "if f.size(0) > 1:\n    y = f * 2\nelse:\n    y = f\nreturn y",
    "if of a tensor": "if bool(s > 0):\n    y, z = f * 2, 1\nelse:\n    y, z = f - 1, 2\n"
        "return y, z",
    "if of another": "if float(s) > 100:\n    y = f * 2\n    n = [y, y]\nelse:\n"
        "    y = f - 1\n    n = [f, y]\nreturn n",
    "nested ifs": "y = f\nif bool(s > 0):\n    if bool(f.sum() > 0):\n        y = y + 1\n"
        "    else:\n        y = y - 1\nreturn y",
    "early return": "if bool(f.sum() > 0):\n    return f * 2\nif bool(s > 3):\n"
        "    return f * 3\nreturn f",
    "while of a tensor": "y = f\nn = 0\nwhile float(y.abs().sum()) > 3.0:\n    y = y * 0.5\n"
        "    n += 1\nreturn y, n",
    "while with break": "y = f\nn = 0\nwhile bool(y.abs().sum() > 1):\n    y = y * 0.7\n"
        "    n += 1\n    if n > 2:\n        break\nreturn y, n",
    "while that never runs": "y = f\nwhile bool(y.abs().sum() < 0):\n    y = y + 1\nreturn y",
    "for with continue": "y = f\nfor n in range(4):\n    if n == 2:\n        continue\n"
        "    y = y * n + 1\nreturn y",
    "for of a tensor": "y = f\nfor n in range(int(k)):\n    y = y * 2 + n\nreturn y",
    "list in a loop": "a = []\nfor n in range(f.size(1)):\n    a.append(f[:, n] * n)\n"
        "return torch.stack(a, 1)",
    "list in a loop of a tensor": "a = []\nfor n in range(int(k)):\n    a.append(f * n)\n"
        "return torch.stack(a, 1), torch.cat(a, -1), len(a)",
    "last of a list of a loop": "a = [f]\nfor n in range(int(k)):\n    a.append(f * n)\n"
        "return a[-1], torch.cat(a)",
    "carried sizes": "y = v\nfor n in range(int(k)):\n    y = torch.cat([y, v])\nreturn y",
    "dictionary": 'a = {"x": f, "y": g}\na["z"] = f + g\ny = f\nfor n, t in a.items():\n'
        '    y = y + t\nreturn y, a["z"], len(a), "x" in a',
    "comprehension": "return [t * 2 for t in f.unbind(0)], [n for n in f.shape]",
    "tuple": "a = (f, 2)\ny, n = a\nreturn y * n, a[1]",
    "format": 'if f.dim() == 3:\n    n = "a{}".format(f.size(0))\nelse:\n    n = "b"\n'
        'return f * len(n)',
    "assert": 'assert f.dim() == 3, "bad"\nreturn f',
    "assert of a tensor": 'assert bool(s < 100), "bad"\nreturn f + s',
    "raise": 'if bool(s > 1000):\n    raise ValueError("no")\nreturn f',
    "slice assignment": "y = f.clone()\ny[:, 0] = 0.0\ny[0, 1:] = g[0, 1:]\n"
        "y[..., -1] += 1\nreturn y",
    "mask assignment": "y = f.clone()\ny[y > 0] = 1.0\nreturn y",
    "index assignment": "y = f.clone()\ny[:, [0, 2]] = g[:, :2]\nreturn y",
    "view of a view": "y = f.clone()\nz = y[0].t()\nz[1].mul_(3.0)\nreturn y, z",
    "view changed after": "y = f.clone()\nz = y.view(-1)\ny.add_(1.0)\nreturn z * 1, y",
    "parts changed": "y = f.clone()\na, b = y.chunk(2, -1)\na.mul_(2.0)\nb.zero_()\n"
        "c = y.unbind(0)\nc[1].add_(5.0)\nreturn y",
    "changed in a branch": "y = f.clone()\nif bool(s > 0):\n    y[0].fill_(1.0)\nelse:\n"
        "    y.mul_(2.0)\nreturn y",
    "changed in a loop": "y = f.clone()\nz = y[0]\nfor n in range(int(k)):\n"
        "    z.add_(1.0)\nreturn y, z",
    "filled in a loop": "y = torch.zeros([3, 4])\nfor n in range(y.size(0)):\n"
        "    y[n] = v * n\nreturn y",
    "relu in place": "y = f + 1\nz = torch.nn.functional.relu(y, inplace=True)\nreturn y, z",
    "identity in place": "y = f.clone()\nz = y.float()\nz.add_(1.0)\nreturn y",
    "integer in place": "y = i.clone()\ny += 1\ny *= 2\nreturn y",
    "list in a branch": "a = [f]\nif bool(s > 0):\n    a.append(g)\nelse:\n"
        "    a.append(f * 2)\nreturn torch.cat(a)",
    "lists of numbers": "a = [1, 2] + [3]\na[0] = 5\na.reverse()\n"
        "return f.repeat(a), sum(a), max(a), a == [3, 2, 5]",
    "numbers from sizes": "n = f.size(0)\nm = n * f.size(1) // 2\n"
        "return f.view(m * 2, -1), m % 2, n / m, -n",
    "none": "y = torch.jit.annotate(Optional[torch.Tensor], None)\nif f.dim() > 5:\n"
        "    y = g\nif y is None:\n    return f\nreturn f + 1",
    "tuple in a loop": "y = (f, 0)\nfor n in range(int(k)):\n    y = (y[0] * 2, y[1] + n)\n"
        "return y",
    "loop in a loop": "y = f\nfor n in range(int(k)):\n    for m in range(int(k)):\n"
        "        y = y + n * m\nreturn y",
    "loop in a branch": "y = f\nif bool(s > 0):\n    for n in range(int(k)):\n        y = y + n\n"
        "return y",
    "branch in a loop": "y = f\nfor n in range(int(k)):\n    if bool(y.sum() > 0):\n"
        "        y = y - n\n    else:\n        y = y + n\nreturn y",
    "two lists in a loop": "a = []\nb = []\nfor n in range(int(k)):\n    a.append(f[0] * n)\n"
        "    b.append(f[1] + n)\nreturn torch.stack(a), torch.stack(b)",
    "growing tensor": "t = i[0, 0, :1]\nn = 0\nwhile n < 5 and bool(t.sum() < 20):\n"
        "    t = torch.cat([t, t[-1:] * 2 + 1])\n    n += 1\nreturn t",
    "repeated tensor": "y = f.clone()\nz = y[:, :1].expand(-1, 3, 4)\ny.mul_(2.0)\nreturn z + 0",
    "input changed": "f.add_(1.0)\nreturn f * 2",
    "copied parts": "y = torch.zeros_like(f)\ny[:, 1:] = f[:, :-1]\ny[:, :1].copy_(f[:, -1:])\n"
        "return y",
    "enumerate and zip": "y = f\nfor n, t in enumerate(f.unbind(1)):\n"
        "    y = y + t.unsqueeze(1) * n\n"
        "for t, n in zip(f.unbind(1), [1, 2, 3]):\n    y = y + t.unsqueeze(1) * n\nreturn y",
    "indices": "return f[:, None, ..., None], f[[0, 1], [1, 2]], f[torch.tensor([1, 0])]",
    "number of a tensor": "n = int(k.item())\nreturn f[:, :, :n], n * 2",
}  # fmt: skip
"""Bodies of forward by name."""
REFUSED = {
    "perhaps a view": (
        "y = f.t() if f.dim() == 2 else f.clone()\nz = y.reshape(-1)\ny.add_(1.0)\nreturn z",
        "share",
    ),
    "length of a list": ("a = [f]\nif bool(s > 0):\n    a.append(g)\nreturn a", "another length"),
    "changed sizes": (
        "y = v\nfor n in range(int(k)):\n    y = y.unsqueeze(0)\nreturn y",
        "number of axes",
    ),
}  # fmt: skip
"""Bodies that are refused, and what the error says."""
