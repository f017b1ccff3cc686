"""Writes docs/light.md, docs/zh/light.md and docs/light.svg of the results of `benchmarks.light`:
`python -m benchmarks.light.page RESULTS.json`.

The texts around the tables are `text.en.md` and `text.zh.md` beside this file: braces stand for
figures of the results. What they say in words is held against the results (`CLAIMS`).
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.figures_page import NAMES, PACKAGES
from benchmarks.light.drawing import Point, around, drawing, plot
from benchmarks.light.facts import (
    KERNELS,
    MOVES,
    REST,
    Network,
    contradictions,
    front,
    networks,
    rank_correlation,
)
from benchmarks.light.instructions import TARGET
from benchmarks.light.networks import SLIM_V1
from benchmarks.light.words import WORDS
from benchmarks.zoo import OURS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
RESULTS = ROOT / "benchmarks" / "results" / "light-amd-epyc-zen-4-2-cores.json"
"""What the page in docs/ was written of."""
PAIRS = 5
RATES = (10, 20, 50)
"""Thousands of millions of MACs in a second that the plot has lines of."""
CLAIMS: dict[str, Callable[[dict[str, Network]], bool]] = {
    "parameters mislead more than MACs": lambda n: (
        rank_correlation(list(n.values()), _parameters, Network.ms)
        < rank_correlation(list(n.values()), _macs, Network.ms)
    ),
    "SqueezeNet has the parameters of a MobileViT XXS, and is slower than MobileNetV2": lambda n: (
        0.9 < n["squeezenet1_0"].parameters / n["mobilevit_xxs"].parameters < 1.1
        and n["squeezenet1_0"].ms() > 1.2 * n["mobilenet_v2"].ms()
    ),
    "SqueezeNet is above the peak of direct convolutions": lambda n: (
        n["squeezenet1_0"].rate > n["squeezenet1_0"].peak
    ),
    "EfficientNet B0 has the MACs of Lite0, more memory access, and takes longer": lambda n: (
        0.98 < n["efficientnet_b0"].macs / n["efficientnet_lite0"].macs < 1.02
        and n["efficientnet_b0"].access > 1.5 * n["efficientnet_lite0"].access
        and n["efficientnet_b0"].ms() > 1.05 * n["efficientnet_lite0"].ms()
    ),
    "a quarter of the channels gains less time than MACs": lambda n: (
        n["mobilenet_v1_025"].rate < n["mobilenet_v1"].rate
    ),
    "filters of single channels take more of the memory access than of the MACs": lambda n: (
        n["mobilenet_v2"].access_by["depthwise"] > 2 * n["mobilenet_v2"].macs_by["depthwise"]
    ),
    "MobileViT XXS has about the MACs of EfficientNet B0": lambda n: (
        0.8 < n["mobilevit_xxs"].macs / n["efficientnet_b0"].macs < 1.2
    ),
    "shuffles cost less time than memory access": lambda n: all(
        n[name].time_by[MOVES] < n[name].access_by["move"]
        for name in ("shufflenet_v2_x0_5", "shufflenet_v2_x1_0")
    ),
}
"""What the texts say in words."""


class FalseClaim(ValueError):
    """The texts of the page say what the results do not show."""


def pages(results: dict[str, Any], source: str) -> dict[str, str]:
    """Files of docs/ by name: the page in both languages, and the drawing. FalseClaim where the
    texts say what the results do not show.
    """
    found = networks(results)
    by_name = {network.name: network for network in found}
    for claim, holds in CLAIMS.items():
        if not holds(by_name):
            raise FalseClaim(f"the results do not show that {claim}: mend text.*.md and CLAIMS")
    return {
        "light.md": text(results, source, "en"),
        "zh/light.md": text(results, source, "zh"),
        "light.svg": draw(found),
    }


def text(results: dict[str, Any], source: str, language: str) -> str:
    """The page in one language."""
    found, words, machine = networks(results), WORDS[language], results["machine"]
    by_name = {network.name: network for network in found}
    packages = [PACKAGES.get(name, name) for name in results["engines"]]
    turns = sum(
        len(of) for n in found for engines in n.row["turns"].values() for of in engines.values()
    )
    pairs = [
        "* "
        + words["pair"].format(
            fewer=pair.fewer.title,
            macs=pair.fewer.macs,
            times=pair.fewer.ms() / pair.faster.ms(),
            faster=pair.faster.title,
            others=pair.faster.macs,
        )
        for pair in contradictions(found, PAIRS)
    ]
    rates = sorted(found, key=lambda network: network.rate)
    ranks = {
        name: f"{rank_correlation(found, of, Network.ms):.2f}"
        for name, of in (
            ("macs", _macs),
            ("parameters", _parameters),
            ("access", lambda n: n.access),
            ("calls", lambda n: n.calls),
        )
    }
    template = Path(__file__).with_name(f"text.{language}.md").read_text("utf-8")
    return template.format(
        **by_name,
        command=results["command"],
        source=source,
        processor=f"{machine['processor']} ({machine['generation']})",
        cores=machine["cores"],
        versions=", ".join(f"{name} {machine['versions'][name]}" for name in packages),
        rounds=results["rounds"],
        seconds=results["seconds_a_turn"],
        turns=turns,
        disturbed=sum(network.row["disturbed"] for network in found),
        scheduling=results["scheduling"],
        emulator=results.get("emulation", {}).get("qemu-aarch64", "–"),
        count=len(found),
        front=", ".join(f"{n.title} ({n.light.top1:.1f} %, {n.ms():.1f} ms)" for n in front(found)),
        pairs="\n".join(pairs),
        ranks=ranks,
        slowest=rates[0],
        fastest=rates[-1],
        instructions=instructions_per_mac(found),
        v1=SLIM_V1,
        spread=rates[-1].rate / rates[0].rate,
        **quotients(by_name),
        sizes=sizes(found, words),
        times=times(found, results, words),
        parts=parts(found, words),
        sources=sources(found, words),
    )


def instructions_per_mac(found: Sequence[Network]) -> str:
    """The least and the most instructions for a MAC on 64-bit ARM; a dash without counts."""
    counts = [elsewhere(n).get(TARGET, {}).get("instructions", 0) / n.macs / 1e6 for n in found]
    return f"{min(counts):.2f}–{max(counts):.2f}" if all(counts) else "–"


def quotients(n: dict[str, Network]) -> dict[str, float]:
    """Figures of two networks, one over the other."""
    full, quarter = n["mobilenet_v1"], n["mobilenet_v1_025"]
    gated, plain = n["efficientnet_b0"], n["efficientnet_lite0"]
    return {
        "quarter_macs": full.macs / quarter.macs,
        "quarter_time": full.ms() / quarter.ms(),
        "gated_time": gated.ms() / plain.ms(),
        "vit_parameters": gated.parameters / n["mobilevit_xxs"].parameters,
        "vit_time": n["mobilevit_xxs"].ms() / gated.ms(),
        "squeeze_macs": n["squeezenet1_0"].macs / n["mobilenet_v2"].macs,
        "squeeze_time": n["squeezenet1_0"].ms() / n["mobilenet_v2"].ms(),
    }


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def sizes(found: Sequence[Network], words: dict[str, str]) -> str:
    """Accuracy, counts and bytes."""
    keys = ("parameters", "macs", "access", "calls", "library", "weights", "arena")
    head = [words["network"], words["pixels"], "top-1, %", *(words[key] for key in keys)]
    rows = [
        [
            n.title,
            str(n.light.size),
            f"{n.light.top1:.1f}",
            f"{n.parameters:.2f}",
            f"{n.macs:.0f}",
            f"{n.access:.1f}",
            f"{n.calls:.1f}",
            f"{n.row['compiled']['library'] / 2**10:.0f}",
            f"{n.row['compiled']['weights'] / 2**20:.2f}",
            f"{n.row['compiled']['arena'] / 2**20:.2f}",
        ]
        for n in found
    ]
    return table(head, rows)


def times(found: Sequence[Network], results: dict[str, Any], words: dict[str, str]) -> str:
    """Milliseconds of every engine; and counts on machines that are not here, a column for each
    target that the results have.
    """
    engines, targets = (
        results["engines"],
        list(dict.fromkeys(t for n in found for t in elsewhere(n))),
    )
    names = {OURS: "Infuse"} | NAMES
    head = [words["network"]]
    for n in results["threads"]:
        head += [
            words["threads"].format(n=names[engine], threads=n, s="s" * (n > 1))
            for engine in engines
        ]
        head += [words["ratio"]]
    head += [words["roof"], words["rate"]]
    for target in targets:
        head += [words[key].format(target=target) for key in ("instructions", "size")]
    return table(head, [_time_cells(n, results, targets) for n in found])


def elsewhere(network: Network) -> dict[str, dict[str, int]]:
    """Its counts on machines that are not here, by target."""
    found: dict[str, dict[str, int]] = network.row["elsewhere"]
    return found


def _time_cells(network: Network, results: dict[str, Any], targets: Sequence[str]) -> list[str]:
    cells = [network.title]
    for n in results["threads"]:
        taken = [network.ms(n, engine) for engine in results["engines"]]
        cells += [f"{ms:.2f}" if ms == ms else "–" for ms in taken]
        ratio, peer = network.ratio(n)
        cells.append(f"{ratio:.2f}× {peer}")
    cells += [f"{network.roof():.0%}", f"{network.rate:.1f}"]
    for target in targets:
        counts = elsewhere(network).get(target)
        cells += (
            [f"{counts['instructions'] / 1e6:.0f}", f"{counts['library'] / 2**10:.0f}"]
            if counts
            else ["–", "–"]
        )
    return cells


def parts(found: Sequence[Network], words: dict[str, str]) -> str:
    """Where the time goes, by class of kernel."""
    classes = (*KERNELS, REST)
    rows = [[n.title, *(f"{n.time_by[key]:.0f} %" for key in classes)] for n in found]
    return table([words["network"], *(words[key] for key in classes)], rows)


def sources(found: Sequence[Network], words: dict[str, str]) -> str:
    """Who says how accurate each network is."""
    rows = [[n.title, f"{n.light.top1:g}", f"`{n.light.weights}`: {n.light.source}"] for n in found]
    return table([words["network"], "top-1, %", words["source"]], rows)


def draw(found: Sequence[Network]) -> str:
    """Accuracy over time, and time over MACs, as SVG."""
    ms, macs, top1 = ([f(n) for n in found] for f in (Network.ms, _macs, _top1))
    time = around(ms, "milliseconds in one thread")
    accuracy = around(top1, "top-1, %", is_log=False)
    work = around(macs, "millions of MACs")
    points = [(n.title, n.light.parts) for n in found]
    return drawing(
        [
            plot([Point(*p, x, y) for p, x, y in zip(points, ms, top1)], time, accuracy),
            plot([Point(*p, x, y) for p, x, y in zip(points, macs, ms)], work, time, RATES),
        ]
    )


def _top1(network: Network) -> float:
    return network.light.top1


def _macs(network: Network) -> float:
    return network.macs


def _parameters(network: Network) -> float:
    return network.parameters


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, nargs="?", default=RESULTS)
    path = parser.parse_args().results
    from tests import chinese

    source = path.resolve().relative_to(ROOT).as_posix()
    for name, content in pages(json.loads(path.read_text("utf-8")), source).items():
        (DOCS / name).write_text(content, "utf-8")
    chinese.main([str(DOCS / "zh" / "light.md")])
    return 0


if __name__ == "__main__":
    sys.exit(main())
