"""Every operator of torch that Infuse reads, on the samples of torch's own tests, against torch:
`python -m benchmarks.torch_operators [--samples 6] [--only add,mul] [--symbolic] [--special]
[--part 2/5]`. Each kind of difference is printed when it is met, and all of them at the end.

It needs `expecttest`, which torch's tests import.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import chain
from typing import Any

import torch

from benchmarks.torch_calls import Call, checked, recorded
from benchmarks.torch_direct_calls import direct_calls
from benchmarks.torch_special import special_calls

DTYPES = (torch.float32, torch.int64, torch.bool, torch.float16, torch.uint8, torch.bfloat16)
MOST = 60
"""Calls of an overload on one type of elements that are compared."""


def core_overloads() -> list[str]:
    """Core ATen without what only training needs."""
    names = []
    for full in torch._C._dispatch_get_all_op_names():
        space, _, rest = full.partition("::")
        name, _, overload = rest.partition(".")
        packet = getattr(torch.ops.aten, name, None) if space == "aten" else None
        op: Any = getattr(packet, overload or "default", None)
        if op is not None and torch.Tag.core in op.tags and "backward" not in name:
            names.append(str(op))
    return sorted(names)


def main() -> None:
    """Print how many overloads are right, and those that are not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=6, help="of each operator and type")
    parser.add_argument("--only", default="", help="operators of torch's table, with commas")
    parser.add_argument("--types", default="", help="such as float32,int64")
    parser.add_argument("--symbolic", action="store_true", help="leave sizes open")
    parser.add_argument("--missing", action="store_true", help="list operators without an entry")
    parser.add_argument(
        "--special", action="store_true", help="special values in place of torch's samples"
    )
    parser.add_argument("--part", default="1/1", help="the operators of this part, such as 2/5")
    arguments = parser.parse_args()
    from torch.testing._internal.common_methods_invocations import op_db

    only = set(filter(None, arguments.only.split(",")))
    part, parts = map(int, arguments.part.split("/"))
    operators = [op for op in op_db if not only or op.name in only][part - 1 :: parts]
    types = [getattr(torch, t) for t in filter(None, arguments.types.split(","))] or DTYPES
    passed: Counter[str] = Counter()
    failed: dict[str, Counter[str]] = defaultdict(Counter)
    examples: dict[tuple[str, str], str] = {}
    met: Counter[tuple[str, str]] = Counter()
    untraced: list[str] = []
    calls: Iterable[Call]
    if arguments.special:
        calls = special_calls(operators, types)
    else:
        samples = recorded(operators, types, arguments.samples, untraced=untraced)
        calls = chain(samples, [] if only or part > 1 else direct_calls())
    for call in calls:
        kind = (call.overload, call.first_type)
        if met[kind] >= MOST:
            continue
        met[kind] += 1
        why = checked(call, arguments.symbolic)
        if why:
            failed[call.overload][why] += 1
            if (call.overload, why) not in examples:
                print(f"{why}\n        {call.signature[:300]}", flush=True)
            examples.setdefault((call.overload, why), call.signature)
        else:
            passed[call.overload] += 1
    _report(passed, failed, examples, arguments.missing)
    names = sorted({why.partition(" ")[0] for why in untraced})
    print(f"samples that torch could not make or trace: {len(untraced)}, of", *names)


def _report(
    passed: Counter[str],
    failed: dict[str, Counter[str]],
    examples: dict[tuple[str, str], str],
    missing: bool,
) -> None:
    print("\n-- all --")
    failed = {name: reasons for name, reasons in failed.items() if reasons}
    absent = sorted(n for n, r in failed.items() if any("no entry" in why for why in r))
    for name, reasons in sorted(failed.items()):
        if name in absent:
            continue
        print(f"{name}: {passed[name]} right, {reasons.total()} not")
        for why, count in reasons.most_common(3):
            print(f"    {count} × {why}\n        {examples[name, why][:300]}")
    core = core_overloads()
    right = [n for n in passed if passed[n] and n not in failed]
    print(f"calls right: {passed.total()}, not: {sum(r.total() for r in failed.values())}")
    print(f"overloads right in all calls: {len(right)}, in some: "
          f"{len([n for n in failed if passed[n]])}, without an entry: {len(absent)}")  # fmt: skip
    print(f"Core ATen: {len(set(right) & set(core))} of {len(core)} right in all calls; others:")
    for name in core:
        if name not in right:
            state = (
                "not called by any sample"
                if name not in failed
                else (f"{passed[name]} right, {failed[name].total()} not")
            )
            print(f"    {name}: {state}")
    if missing:
        print("without an entry:", *absent)


if __name__ == "__main__":
    main()
