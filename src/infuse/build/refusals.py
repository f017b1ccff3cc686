"""What cannot be compiled as it is asked for."""

from __future__ import annotations

import os

from infuse.build.staged import Stages
from infuse.errors import OptionError
from infuse.lowering.memory import Plan
from infuse.lowering.program import Program
from infuse.options import PREFIX, CompileOptions
from infuse.targets import Target

PathLike = str | os.PathLike[str]


def require_interface(stages: Stages, options: CompileOptions) -> None:
    """OptionError where something is asked for of the C interface, and the model has none."""
    wish = ""
    if options.prefix != PREFIX:
        wish = f", whose functions could have the prefix {options.prefix!r}"
    elif options.embed:
        wish = ", whose library could have the weights in it"
    if wish:
        names = (
            ", ".join(f"{node.kind} {node.name!r}" for node in stages.host_nodes)
            or "inputs that are not tensors"
        )
        raise OptionError(
            f"the model has no C interface{wish}: Python runs a part of it ({names})",
            hint="leave it out",
        )


def only_program(stages: Stages, target: Target, output: PathLike | None) -> tuple[Program, Plan]:
    """The program of a model for another machine; OptionError where it cannot be had alone or has
    nowhere to go.
    """
    if output is None:
        raise OptionError(
            f"a model for the target {target.name!r} does not run on this machine"
            if target.is_foreign
            else "one file of C is for programs, and nothing runs it here",
            hint="name a folder for it (output=, -o)",
        )
    if stages.whole is None:
        names = ", ".join(f"{node.kind} {node.name!r}" for node in stages.host_nodes)
        raise OptionError(
            "the interpreter has to run a part of the model, which another machine cannot be "
            f"given: {names}",
            hint="compile it on the machine where it is to run",
        )
    return stages.whole
