"""Layers and operations of Keras by family; importing this registers them all."""

from infuse.frontends.keras.layers import (  # noqa: F401
    activations,
    attention,
    convolutions,
    dense,
    element_operations,
    images,
    legacy,
    matrix_operations,
    merging,
    movement,
    moving_operations,
    normalization,
    numeric_operations,
    operations,
    pooling,
    preprocessing,
    recurrent,
    statistic_operations,
    window_operations,
    wrappers,
)
