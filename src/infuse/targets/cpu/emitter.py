"""Sources of programs for processors."""

from __future__ import annotations

from typing import Final

from infuse.lowering.emitter import Emitter
from infuse.runtime.folder import SOURCE
from infuse.targets.cpu.emit.functions import kernels_in
from infuse.targets.cpu.emit.shared_files import usual_files
from infuse.targets.cpu.emit.source import print_sources
from infuse.targets.cpu.emit.trials import print_trials
from infuse.targets.cpu.emit.units import alone, join
from infuse.targets.text.interface import interface_files


class CppEmitter:
    """Writes C++ that includes the headers of `kernels/`."""

    main = SOURCE
    print_sources = staticmethod(print_sources)
    print_trials = staticmethod(print_trials)
    alone = staticmethod(alone)
    join = staticmethod(join)
    kernels_in = staticmethod(kernels_in)
    usual_files = staticmethod(usual_files)

    interface_files = staticmethod(interface_files)


EMITTER: Final[Emitter] = CppEmitter()
