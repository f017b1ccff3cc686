"""What kernels cost on processors (see `lowering/costs.py`)."""

from infuse.targets.cpu.costs.cost_model import predict as predict
from infuse.targets.cpu.costs.estimates import kernel_seconds as kernel_seconds
