"""The kernels of plain C: what lowerings are registered with, and how kernels are called."""

from typing import Final

from infuse.dtypes import DType
from infuse.lowering.kernel_table import TABLES
from infuse.lowering.writer import FunctionWriter

KERNELS: Final = TABLES["c"]
lowers = KERNELS.lowers


def call(f: FunctionWriter, kernel: str, dtype: DType, *arguments: object) -> None:
    """A call of the kernel for elements, or indices, of a type."""
    f.call(kernel, *arguments, template=(dtype.c_name,), context=False)


def call_checked(f: FunctionWriter, kernel: str, dtype: DType, *arguments: object) -> None:
    """The same of one that is given the context, and fails where an index lies outside."""
    f.call(kernel, *arguments, template=(dtype.c_name,), failure="BAD_INDEX")
