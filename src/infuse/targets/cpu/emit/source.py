"""A program as C++: one readable function per distinct kernel call, one list of calls, the C
interface.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infuse.lowering.memory import Plan
from infuse.lowering.program import Program, all_sizes
from infuse.options import PREFIX
from infuse.targets.cpu.emit.language import CPP
from infuse.targets.cpu.emit.recording import recorded, recording
from infuse.targets.cpu.emit.units import distinct, end, preamble
from infuse.targets.text.entry import Additions, interface_text, read_text
from infuse.targets.text.frames import ProgramText, model_text
from infuse.targets.text.names import prefixed
from infuse.targets.text.plan import plan_text


def print_sources(
    program: Program,
    plan: Plan,
    info: Mapping[str, Any],
    *,
    apart: bool = False,
    profile: bool = False,
) -> dict[str, str]:
    """File names and C++ texts.

    `apart`: functions that stand alone, what they share with those of other models, and all other
    functions are files (`units.py`), and the main one only calls them; else all is in one. With
    `profile`, a run records when every step began and ended (`infuse_profile`).
    """
    programs = [program, *program.bodies]
    steps = recorded if profile else None
    frames = [ProgramText(p, q, CPP, steps) for p, q in zip(programs, [plan, *plan.bodies])]
    added = recording(len(all_sizes(programs))) if profile else Additions()
    headers = ["profile.hpp"] if profile else []
    prefix = info.get("prefix", PREFIX)
    functions = distinct((step for p in programs for step in p.steps), programs, apart, prefix)
    names = functions.names
    main = [preamble(programs, functions.in_main, planning=True, more=headers, prefix=prefix)]
    main += functions.text()
    main += [plan_text(frame.program, frame.plan, CPP) for frame in frames]
    main += [model_text(frames, added.fields)]
    main += [f"{CPP.head(f, names[CPP.text_of(f)])};" for f in functions.controls]
    main += [frame.run_text(names) for frame in frames]
    main += [CPP.define(f, names[CPP.text_of(f)]) for f in functions.controls]
    main.append(read_text(program))
    exported = f'extern "C" {{\n\n{interface_text(frames, info, CPP, added)}\n}}  // extern "C"\n'
    main += [prefixed(exported, prefix), end(prefix)]
    return functions.files("\n".join(main))
