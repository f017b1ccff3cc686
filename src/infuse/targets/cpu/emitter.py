"""Sources of programs for processors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from infuse.lowering.emitter import Emitter
from infuse.runtime.folder import HEADER
from infuse.targets.cpu.emit.functions import kernels_in
from infuse.targets.cpu.emit.shared_files import usual_files
from infuse.targets.cpu.emit.source import print_sources
from infuse.targets.cpu.emit.trials import print_trials
from infuse.targets.cpu.emit.units import alone, join
from infuse.targets.text.interface import EXAMPLE, example, header


class CppEmitter:
    """Writes C++ that includes the headers of `kernels/`."""

    print_sources = staticmethod(print_sources)
    print_trials = staticmethod(print_trials)
    alone = staticmethod(alone)
    join = staticmethod(join)
    kernels_in = staticmethod(kernels_in)
    usual_files = staticmethod(usual_files)

    @staticmethod
    def interface_files(metadata: Mapping[str, Any]) -> dict[str, str]:
        """`model.h`, and a program in C that runs the model."""
        return {HEADER: header(metadata), EXAMPLE: example(metadata)}


EMITTER: Final[Emitter] = CppEmitter()
