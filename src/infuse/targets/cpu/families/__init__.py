"""One file a family of kernels: sizes, the packing of weights, the work that is counted for its
cost, and the meaning in NumPy.
"""

from infuse.targets.cpu.families import (
    attention as attention,
    convolution as convolution,
    depthwise as depthwise,
    gemm as gemm,
    indexing as indexing,
    integers as integers,
    matmul as matmul,
    movement as movement,
    nbits as nbits,
    normalization as normalization,
    planes as planes,
    pooling as pooling,
    recurrence as recurrence,
    recurrent as recurrent,
    reduction as reduction,
    regions as regions,
    resize as resize,
    rotary as rotary,
    sampling as sampling,
    signal as signal,
    sparse as sparse,
    tables as tables,
    trees as trees,
    windows as windows,
    winograd as winograd,
)
