"""The intermediate representation: graphs, types, symbolic dimensions."""

from infuse.ir.contents import known_ints as known_ints
from infuse.ir.graph import (
    Graph as Graph,
    Node as Node,
    Use as Use,
    Value as Value,
    constant as constant,
)

# Registers how graphs are pickled and copied.
from infuse.ir.pickling import flattened as flattened
from infuse.ir.types import (
    DataFormat as DataFormat,
    MapType as MapType,
    OptionalType as OptionalType,
    SequenceType as SequenceType,
    Shape as Shape,
    StateType as StateType,
    TensorType as TensorType,
    Type as Type,
    tensor as tensor,
)
