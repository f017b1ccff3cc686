"""Models that ask for more than anybody has: nodes, terms, memory, time, depth."""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from onnx import FunctionProto, ModelProto, NodeProto, TensorProto, helper

FLOAT, INT64, BOOL, STRING = (
    TensorProto.FLOAT,
    TensorProto.INT64,
    TensorProto.BOOL,
    TensorProto.STRING,
)
node = helper.make_node
OWN = helper.make_opsetid("d", 1)


def info(name: str, *shape: Any, kind: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def out(name: str = "y", kind: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, None)


def ints(name: str, *values: int) -> TensorProto:
    return helper.make_tensor(name, INT64, [len(values)], values)


def number(name: str, value: float, kind: int = INT64) -> TensorProto:
    return helper.make_tensor(name, kind, [], [value])


def floats(name: str, *values: float, shape: Sequence[int] = ()) -> TensorProto:
    return helper.make_tensor(name, FLOAT, shape or [len(values)], values)


def model(
    nodes: Iterable[NodeProto],
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    constants: Sequence[TensorProto] = (),
    functions: Sequence[FunctionProto] = (),
) -> ModelProto:
    graph = helper.make_graph(
        list(nodes), "g", inputs or [info("x", "n", 4)], outputs or [out()], constants
    )
    opsets = [helper.make_opsetid("", 20), *([OWN] if functions else [])]
    return helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=9)


def one(
    kind: str,
    *inputs: str,
    constants: Sequence[TensorProto] = (),
    kind_of: int = FLOAT,
    **attributes: Any,
) -> ModelProto:
    """A model of one node over constants, and an input that nobody reads."""
    outputs = [out("y", kind_of)]
    return model(
        [node(kind, list(inputs), ["y"], **attributes)], [info("unused", 1)], outputs, constants
    )


def filled(shape: Sequence[int], *after: NodeProto, kind: int = FLOAT) -> ModelProto:
    """`after` on a tensor z of zeros of this shape."""
    return model(
        [node("ConstantOfShape", ["s"], ["z"]), *after],
        [info("unused", 1)],
        [out("y", kind)],
        [ints("s", *shape)],
    )


def doubling(depth: int, times: int = 2) -> ModelProto:
    """Functions each of which calls the next one several times."""
    functions = []
    for level in range(depth):
        kind, domain = (f"f{level + 1}", "d") if level < depth - 1 else ("Relu", "")
        names = ["a", *(f"v{i}" for i in range(times - 1)), "c"]
        body = [node(kind, [before], [after], domain=domain) for before, after in pairwise(names)]
        functions.append(
            helper.make_function(
                "d", f"f{level}", ["a"], ["c"], body, [helper.make_opsetid("", 20), OWN]
            )
        )
    return model([node("f0", ["x"], ["y"], domain="d")], functions=functions)


def chain(kind: str, count: int, twice: bool = False, **attributes: Any) -> ModelProto:
    names = ["x", *(f"v{i}" for i in range(count - 1)), "y"]
    return model(
        [node(kind, [a, a] if twice else [a], [b], **attributes) for a, b in pairwise(names)]
    )


def sized(text: str) -> ModelProto:
    """An input whose size is this text."""
    return model([node("Relu", ["x"], ["y"])], [info("x", text, 4)])


def powers(symbols: int, squarings: int) -> ModelProto:
    """A size that is a sum of symbols, squared again and again."""
    names = [f"x{i}" for i in range(symbols)]
    nodes = [node("Concat", names, ["c"], axis=0), node("Shape", ["c"], ["p0"])]
    nodes += [node("Mul", [f"p{i}", f"p{i}"], [f"p{i + 1}"]) for i in range(squarings)]
    nodes.append(node("Expand", ["one", f"p{squarings}"], ["y"]))
    return model(
        nodes, [info(name, f"a{i}") for i, name in enumerate(names)], constants=[floats("one", 1)]
    )


def looped(
    trips: int, body: Sequence[NodeProto], *, scan: bool = False, start: Sequence[int] = (1,)
) -> ModelProto:
    """A Loop over v, which starts as zeros; `body` makes w of it."""
    outputs = [info("co", kind=BOOL), out("w"), *([out("e")] if scan else [])]
    nodes = [
        node("Identity", ["ci"], ["co"]),
        *body,
        *([node("Identity", ["w"], ["e"])] if scan else []),
    ]
    inner = helper.make_graph(
        nodes,
        "body",
        [info("i", kind=INT64), info("ci", kind=BOOL), out("v")],
        outputs,
        [floats("one", 1)],
    )
    loop = node("Loop", ["t", "", "v0"], ["y", *(["z"] if scan else [])], body=inner)
    zeros = helper.make_tensor("v0", FLOAT, start, np.zeros(start, np.float32))
    return model(
        [loop],
        [info("unused", 1)],
        [out(), *([out("z")] if scan else [])],
        [number("t", trips), zeros],
    )


def branches(depth: int, both: bool) -> ModelProto:
    """An If in an If; with `both`, in each of its branches."""

    def inner(left: int) -> Any:
        name = f"o{left}"
        nodes = [node("Relu", ["x"], [name])]
        if left:
            other = (
                inner(left - 1)
                if both
                else helper.make_graph([node("Neg", ["x"], ["e"])], "e", [], [out("e")])
            )
            nodes = [node("If", ["c"], [name], then_branch=inner(left - 1), else_branch=other)]
        return helper.make_graph(nodes, f"g{left}", [], [out(name)])

    nodes = [node("If", ["c"], ["y"], then_branch=inner(depth), else_branch=inner(0))]
    return model(nodes, [info("x", "n", 4), info("c", kind=BOOL)])


def wide(count: int) -> ModelProto:
    nodes = [node("Relu", ["x"], [f"y{i}"]) for i in range(count)]
    return model(nodes, outputs=[info(f"y{i}", "n", 4) for i in range(count)])


def region(size: float, ratio: int = 0, out_size: int = 1, scale: float = 1.0) -> ModelProto:
    image, box = (
        floats("i", 1, 2, 3, 4, shape=[1, 1, 2, 2]),
        floats("r", 0, 0, size, size, shape=[1, 4]),
    )
    sizes = {
        "output_height": out_size,
        "output_width": out_size,
        "sampling_ratio": ratio,
        "spatial_scale": scale,
    }
    return one("RoiAlign", "i", "r", "b", constants=[image, box, ints("b", 0)], **sizes)


def summed(expression: str, count: int) -> str:
    return "(" + "+".join(f"{expression}{i}" for i in range(count)) + ")"


GROW = [node("Concat", ["v", "v"], ["w"], axis=0)]
STEP = [node("Add", ["v", "one"], ["w"])]
IMAGE = floats("i", 1, 2, 3, 4, shape=[1, 1, 2, 2])
SIX = "ab,cd,ef,gh,ij,kl"

CASES: dict[str, Callable[[], ModelProto]] = {
    # nodes
    **{
        f"functions that double {n} times": lambda n=n: doubling(n)
        for n in (10, 20, 24, 30, 40, 63)
    },
    **{
        f"functions that call {t} times, {n} deep": lambda n=n, t=t: doubling(n, t)
        for n, t in ((6, 12), (12, 8), (5, 100))
    },
    "outputs by the thousand": lambda: wide(2000),
    "a chain of 3000": lambda: chain("Sin", 3000),
    "sums that double 2000 times": lambda: chain("Add", 2000, twice=True),
    **{
        f"concatenations that double {n} times": lambda n=n: chain("Concat", n, twice=True, axis=0)
        for n in (20, 40, 61, 64, 100)
    },
    **{f"If in If, {n} deep": lambda n=n: branches(n, both=False) for n in (8, 16, 30)},
    **{f"If in both branches, {n} deep": lambda n=n: branches(n, both=True) for n in (4, 8, 11)},
    "a Sum of 20000": lambda: model([node("Sum", ["x"] * 20000, ["y"])]),
    # terms
    **{
        f"a product of {k} sums of {n} symbols": lambda n=n, k=k: sized(
            "*".join([summed("a", n)] * k)
        )
        for n, k in ((150, 3), (20, 12), (2, 400), (40, 4))
    },
    **{
        f"a sum of {n} symbols squared {k} times": lambda n=n, k=k: powers(n, k)
        for n, k in ((12, 6), (4, 20), (60, 3))
    },
    "a size in 5000 brackets": lambda: sized("(" * 5000 + "n" + ")" * 5000),
    "a size in 150 brackets": lambda: sized("(" * 150 + "n" + ")" * 150),
    "a sum of 20000 times a symbol": lambda: sized("+".join(["n"] * 20000)),
    "a tower of powers": lambda: sized("9**9**9**9"),
    "a number of 5000 digits": lambda: sized("9" * 5000),
    "maxima in one another": lambda: sized("max(n," * 80 + "1" + ")" * 80),
    "quotients in one another": lambda: sized("(" * 80 + "n" + "//3+1)" * 80),
    # memory
    **{
        f"zeros of {shape}": lambda shape=shape: one(
            "ConstantOfShape", "s", constants=[ints("s", *shape)]
        )
        for shape in ((10**6, 10**6), (2**31, 2**31), (2**62, 2), (10**12,), (2**63 - 1,))
    },
    **{
        f"the sum of zeros of {shape}": lambda shape=shape: filled(
            shape, node("ReduceSum", ["z"], ["y"])
        )
        for shape in ((10**5, 10**5), (10**6, 10**6))
    },
    **{
        f"Tile by {n}": lambda n=n: one("Tile", "f", "s", constants=[floats("f", 1), ints("s", n)])
        for n in (10**10, 10**12, 2**62)
    },
    **{
        f"Expand to {n} squared": lambda n=n: one(
            "Expand", "f", "s", constants=[floats("f", 1), ints("s", n, n)]
        )
        for n in (10**5, 10**6, 2**32)
    },
    **{
        f"Range to {n}": lambda n=n: one(
            "Range",
            "a",
            "b",
            "c",
            kind_of=INT64,
            constants=[number("a", 0), number("b", n), number("c", 1)],
        )
        for n in (10**11, 10**13, 2**63 - 1)
    },
    "Range of tiny steps": lambda: one(
        "Range",
        "a",
        "b",
        "c",
        constants=[number("a", 0, FLOAT), number("b", 1e30, FLOAT), number("c", 1e-30, FLOAT)],
    ),
    **{
        f"Resize by {s:g}": lambda s=s: one(
            "Resize", "i", "", "f", constants=[IMAGE, floats("f", 1, 1, s, s)]
        )
        for s in (1e5, 1e9, 1e30)
    },
    **{
        f"Pad by {n}": lambda n=n: one(
            "Pad", "i", "p", constants=[IMAGE, ints("p", 0, 0, n, n, 0, 0, n, n)]
        )
        for n in (10**6, 10**9, 2**60)
    },
    **{
        f"OneHot of {n}": lambda n=n: one(
            "OneHot",
            "i",
            "n",
            "v",
            constants=[ints("i", *range(100)), number("n", n), floats("v", 0, 1)],
        )
        for n in (10**9, 10**12)
    },
    "EyeLike": lambda: filled((10**6, 10**6), node("EyeLike", ["z"], ["y"])),
    "indices of what is not zero": lambda: filled(
        (10**5, 10**5), node("NonZero", ["z"], ["y"]), kind=INT64
    ),
    "texts of zeros": lambda: filled((10**9,), node("Cast", ["z"], ["y"], to=STRING), kind=STRING),
    "a sequence of zeros": lambda: filled(
        (10**9,),
        node("SplitToSequence", ["z"], ["q"]),
        node("ConcatFromSequence", ["q"], ["y"], axis=0),
    ),
    "a square of zeros": lambda: filled((10**5, 10**5), node("MatMul", ["z", "z"], ["y"])),
    "TopK of zeros": lambda: filled((10**10,), node("ReduceMax", ["z"], ["y"])),
    **{
        f"a window of {n}": lambda n=n: one("HannWindow", "n", constants=[number("n", n)])
        for n in (10**11, 2**62)
    },
    **{
        f"DFT of {n}": lambda n=n: one(
            "DFT", "f", "n", constants=[floats("f", 1, 2, shape=[1, 2, 1]), number("n", n)]
        )
        for n in (10**10, 10**12)
    },
    "MelWeightMatrix": lambda: one(
        "MelWeightMatrix",
        "a",
        "b",
        "c",
        "d",
        "e",
        constants=[
            number("a", 10**6),
            number("b", 10**7),
            number("c", 8000),
            number("d", 0, FLOAT),
            number("e", 4000, FLOAT),
        ],
    ),
    **{
        f"a convolution padded by {n}": lambda n=n: one(
            "Conv", "i", "w", constants=[IMAGE, floats("w", 1, shape=[1, 1, 1, 1])], pads=[n] * 4
        )
        for n in (10**6, 2**40)
    },
    "a pool of 10^18": lambda: one(
        "MaxPool", "i", constants=[IMAGE], kernel_shape=[10**9, 10**9], pads=[5 * 10**8] * 4
    ),
    "a reshape to more than there is": lambda: one(
        "Reshape", "f", "s", constants=[floats("f", 1), ints("s", 2**62, 2)]
    ),
    "an image to columns": lambda: one(
        "Col2Im",
        "f",
        "s",
        "k",
        constants=[floats("f", 1, shape=[1, 1, 1]), ints("s", 10**9, 10**9), ints("k", 1, 1)],
    ),
    "depth to space": lambda: one("DepthToSpace", "i", constants=[IMAGE], blocksize=2**31),
    "a grid": lambda: one(
        "AffineGrid",
        "f",
        "s",
        constants=[floats("f", *range(6), shape=[1, 2, 3]), ints("s", 1, 1, 10**6, 10**6)],
    ),
    **{
        f"Einsum {equation}": lambda equation=equation, n=n: model(
            [node("Einsum", ["x"] * (equation.count(",") + 1), ["y"], equation=equation)],
            [info("x", n, n)],
        )
        for equation, n in (
            (f"{SIX}->abcdefghijkl", 50),
            (f"{SIX}->", 20),
            ("ab,cd,ef->abcdef", 200),
            ("ab,ab,ab->ab", 4),
        )
    },
    # time
    **{f"a Loop of {n} trips": lambda n=n: looped(n, STEP) for n in (10**3, 10**9, 2**40, 2**62)},
    **{
        f"a Loop of {n} trips that keeps all": lambda n=n: looped(n, STEP, scan=True)
        for n in (10**10, 2**40)
    },
    **{f"a Loop that doubles {n} times": lambda n=n: looped(n, GROW) for n in (10, 45, 60)},
    **{
        f"a region of {size:g} pixels": lambda size=size: region(size)
        for size in (100.0, 1e6, 1e9, 1e30)
    },
    "regions by the million": lambda: region(1, ratio=1, out_size=10**6),
    "a region of a huge ratio": lambda: region(1, ratio=2**31 - 1),
    "a region of a huge scale": lambda: region(1, scale=1e30),
    "a wide repetition": lambda: one(
        "Upsample", "i", "f", constants=[IMAGE, floats("f", 1, 1, 1e8, 1e8)]
    ),
}
"""By what is asked for."""

SHORT = (
    "functions that double 40 times",
    "a product of 3 sums of 150 symbols",
    "a sum of 12 symbols squared 6 times",
    "zeros of (1000000, 1000000)",
    "Range of tiny steps",
    "a Loop of 4611686018427387904 trips",
    "a region of 1e+09 pixels",
    "If in both branches, 4 deep",
)
"""Those that also make test tries."""
