"""How operators of Paddle become nodes: the table, and what its entries build with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from infuse import dtypes
from infuse.dtypes import DType
from infuse.errors import ModelFileError
from infuse.frontends.paddle.messages import DTYPES
from infuse.frontends.paddle.program import PaddleOperator, PaddleRegion, Reference
from infuse.ir.contents import known_ints
from infuse.ir.dims import Dim
from infuse.ir.graph import Value
from infuse.tracing.calls import Call, words
from infuse.tracing.importer import Importer, registered

Item = Value | list[Value]
"""What a reference stands for: a tensor or a list of them."""
Handler = Callable[["PaddleCall"], Any]
Registered = TypeVar("Registered", bound=Handler)
TABLE: Final[dict[str, Handler]] = {}
"""By name of the operator in PIR."""
_HARMLESS: Final = words("""op_role op_role_var op_callstack op_device is_test use_cudnn
    use_addto use_mkldnn use_onednn mkldnn_data_type onednn_data_type workspace_size_MB
    exhaustive_search name stop_gradient place place_type force_cpu chunk_id
    force_fp32_output use_quantizer with_quant_attr Scale_in Scale_out Scale_x Scale_y
    fuse_brelu_threshold fuse_alpha fuse_beta Scale_weights Scale_in_eltwise in_dtype
    infer_flags numeric_stable use_calc_stream persistable mkldnn_quantizer skip_quant
    quantization_type trainable_statistics momentum im2col_step sparse is_sparse stable seed
    is_distributed remote_prefetch fix_seed do_model_average op_namescope dropout_prob sorted
    is_sorted X_num_col_dims data_format_ use_global_stats""")
"""Attributes that change nothing at inference."""
_UNDEFINED: Final = (-1, "Undefined(ALL_DTYPE)", "UNDEFINED", "Undefined")


def operator(*names: str) -> Callable[[Registered], Registered]:
    """Register what builds these operators: a function of the call, which returns the first result,
    or a tuple of the first results; a result may be a list of tensors.
    """
    return registered(TABLE, names)


class PaddleScope(Protocol):
    """Where calls are built (the reader's)."""

    g: Importer

    def item(self, reference: Reference) -> Item:
        """What a reference stands for."""

    def defined(self, reference: Reference) -> bool:
        """Whether a reference stands for something."""

    def inner(
        self, g: Importer, region: PaddleRegion, values: Mapping[Reference, Item]
    ) -> Callable[[Sequence[Reference]], list[Value]]:
        """Builds a region with an importer; the answer looks up what its references stand for."""

    def update(self, values: Mapping[Reference, Value]) -> None:
        """Let references stand for tensors from here on."""

    def postpone(self, region: PaddleRegion, results: Sequence[Reference]) -> None:
        """Let these be results of a region that is built where they are chosen."""

    def resumed(self, g: Importer, references: Sequence[Reference]) -> list[Value]:
        """What references stand for, with the postponed regions that make them built by this
        importer.
        """

    def together(self, operator: PaddleOperator) -> list[PaddleOperator]:
        """An operator, and those like it behind it that choose by the same mask."""


class PaddleCall(Call):
    """A call of an operator: its operands, attributes and results."""

    def __init__(self, scope: PaddleScope, operator: PaddleOperator) -> None:
        self.scope, self.operator = scope, operator
        self.g = scope.g
        self._read: set[str] = set()

    # -- attributes --------------------------------------------------------------------------------

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute, or what it is where the program does not say."""
        self._read.add(name)
        return self.operator.attributes.get(name, default)

    def require(self, name: str, *values: Any) -> None:
        """UnsupportedOperatorError unless an attribute is one of these, or left out."""
        value = self.attribute(name, values[0])
        if value not in values:
            raise self.unsupported(f"{name}={value!r}")

    def dtype(self, name: str = "dtype") -> DType | None:
        """The element type that an attribute names, if it does."""
        value = self.attribute(name, -1)
        if value in _UNDEFINED:
            return None
        if isinstance(value, str):
            return dtypes.by_name(value)
        if value not in DTYPES:
            raise self.unsupported(f"the element type {value}")
        return DTYPES[value]

    def check(self) -> None:
        """UnsupportedOperatorError where an attribute was not read that says something."""
        for name, value in self.operator.attributes.items():
            if name in self._read or name in _HARMLESS or name.startswith("fused_reshape"):
                continue
            if value and value not in ("EXPLICIT", "AnyLayout", *_UNDEFINED):
                raise self.unsupported(f"its attribute {name}={value!r}")

    # -- operands ----------------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """Whether an operand is there."""
        return bool(self.operator.operands.get(name))

    def __call__(self, name: str) -> Value:
        """The only tensor of an operand."""
        values = self.tensors(name)
        if len(values) != 1:
            raise ModelFileError(f"its operand {name} is {len(values)} tensors, not one")
        return values[0]

    def maybe(self, name: str) -> Value | None:
        """The tensor of an operand, where it is there."""
        return self(name) if self.has(name) else None

    def tensors(self, name: str) -> list[Value]:
        """All tensors of an operand."""
        if not self.has(name):
            raise ModelFileError(f"it has no operand {name}")
        values: list[Value] = []
        for reference in self.operator.operands[name]:
            item = self.scope.item(reference)
            values += item if isinstance(item, list) else [item]
        return values

    def numbers(self, name: str, default: Any = None) -> list[Dim] | None:
        """The integers of an operand or an attribute, None where a run computes them."""
        if not self.has(name):
            value = self.attribute(name, default)
            if value is None:
                raise ModelFileError(f"it has no {name}")
            return [int(v) for v in value] if isinstance(value, (list, tuple)) else [int(value)]
        self.attribute(name)
        numbers: list[Dim] = []
        for value in self.tensors(name):
            listed = known_ints(value)
            if listed is None:
                if value.const is None or value.const.ndim > 1:
                    return None
                listed = tuple(int(element) for element in value.const.reshape(-1))
            numbers += listed
        return numbers

    def ints(self, name: str, default: Any = None) -> list[int]:
        """The integers of an operand or an attribute, which have to be known."""
        numbers = self.numbers(name, default)
        if numbers is None or not all(isinstance(number, int) for number in numbers):
            raise self.unsupported(f"{name}, computed,")
        return [int(number) for number in numbers if isinstance(number, int)]

    def integer(self, name: str, default: Any = None) -> int:
        """The only integer of an operand or an attribute."""
        numbers = self.ints(name, default)
        if len(numbers) != 1:
            raise ModelFileError(f"its {name} is {len(numbers)} numbers, not one")
        return numbers[0]

    def number(self, name: str, default: Any = None) -> float:
        """The number in an attribute or in an operand, which has to be known."""
        if not self.has(name):
            return float(self.attribute(name, default))
        value = self(name).const
        self.attribute(name)
        if value is None or value.size != 1:
            raise self.unsupported(f"{name}, computed,")
        return float(value.reshape(-1)[0])

    def listed(self, name: str, default: Any = None) -> Value:
        """The integers of an operand or an attribute as a list of int64, computed or not."""
        numbers = self.numbers(name, default)
        if numbers is not None and all(isinstance(number, int) for number in numbers):
            return self.g.ints(*numbers)
        flat = [self.flat(value) for value in self.tensors(name)]
        return flat[0] if len(flat) == 1 else self.g("Concat", *flat, axis=0)

    def flat(self, value: Value) -> Value:
        """Integers as a list of int64."""
        if not value.dtype.is_integer:
            raise ModelFileError(f"sizes have the type {value.dtype}")
        value = value if value.rank == 1 else self.g("Reshape", value, self.g.ints(-1))
        return self.g.cast(value, dtypes.int64)

    def axis(self, rank: int, name: str = "axis", default: Any = None) -> int:
        """An axis, counted from the front."""
        return front(self.integer(name, default), rank)

    def wants(self, result: str) -> bool:
        """Whether a result has a reference."""
        return bool(self.operator.results.get(result))


def front(axis: int, rank: int) -> int:
    """An axis counted from the front; ModelFileError where there is none."""
    if not -rank <= axis < max(rank, 1):
        raise ModelFileError(f"it has no axis {axis}: its rank is {rank}")
    return axis % rank if rank else 0
