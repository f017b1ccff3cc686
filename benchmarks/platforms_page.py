"""Writes docs/matrix.md and docs/zh/matrix.md of the results of `benchmarks.platforms`:
`python -m benchmarks.platforms_page`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from infuse.targets.platforms import PLATFORMS

ROOT: Final = Path(__file__).parents[1]
RESULTS: Final = ROOT / "benchmarks/results/platforms-amd-epyc-zen-4-2-cores.json"
"""What the pages were written of."""
PAGES: Final = {"en": ROOT / "docs/matrix.md", "zh": ROOT / "docs/zh/matrix.md"}
COMMAND: Final = "python -m benchmarks.platforms"
Results = Mapping[str, Any]

WORDS: Final = {
    "en": {
        "title": "Where results are right",
        "intro": "Operators and networks, compiled for each platform, run there, and held against\n"
        "an independent witness. `{command}` tries all again and writes this page.\n"
        "Everything ran on {processor} ({cores} cores): emulators say whether results are right,\n"
        "and nothing of times.",
        "rows": "Platforms and what ran their code",
        "operators": "Groups of operators",
        "networks": "Networks",
        "sizes": "Sizes",
        "platform": "platform",
        "runs": "run by",
        "here": "this processor",
        "emulated instructions": "this processor; instructions of AMX are emulated by functions",
        "operators_text": "The short table of operators: so many cases agree with their meaning in "
        "float64, each to its own\nbound. QEMU 7.2 ends on some programs with vectors of RISC-V "
        "by an assertion of its own.",
        "networks_text": "The largest difference from ONNX Runtime over the largest element of the "
        "outputs; at most 1e-3. AMX multiplies bfloat16, whose bound is 0.1.",
        "sizes_text": "KiB of the shared library, without weights.",
        "untried": "Not run",
        "untried_text": "Not tried here: {names}.\n  Code for them is built, and tests look at its "
        "files ([Platforms](platforms.md)).",
        "missing": "not run",
        "wrong": "wrong: {error}",
        "broken": "QEMU ends",
        "apart": "Tests of their own run code for {names}.",
        "reason": "{target}: {reason}.",
    },
    "zh": {
        "title": "结果在哪里正确",
        "intro": "算子和网络为每个平台编译、在那里运行，并与独立的参照比较。"
        "`{command}` 重新尝试全部内容并写出本页。\n"
        "全部在 {processor}（{cores} 个核心）上运行：模拟器只说明结果是否正确，不说明时间。",
        "rows": "平台，以及由什么运行",
        "operators": "算子组",
        "networks": "网络",
        "sizes": "大小",
        "platform": "平台",
        "runs": "由什么运行",
        "here": "本处理器",
        "emulated instructions": "本处理器；AMX 的指令由函数模拟",
        "operators_text": "算子的短表：这么多例子与 float64 中的含义一致，各有自己的界限。"
        "QEMU 7.2 遇到某些 RISC-V 向量程序时因自身的断言而中止。",
        "networks_text": "与 ONNX Runtime 的最大差，除以输出的最大元素；不超过 1e-3。"
        "AMX 计算 bfloat16，其界限为 0.1。",
        "sizes_text": "动态库的 KiB 数，不含权重。",
        "untried": "未运行",
        "untried_text": "这里没有尝试 {names}。\n  它们的代码已构建，"
        "测试检查其文件（[平台](platforms.md)）。",
        "missing": "未运行",
        "wrong": "错误：{error}",
        "broken": "QEMU 中止",
        "apart": "{names} 的代码由单独的测试运行。",
        "reason": "{target}：{reason}。",
    },
}


def page(results: Results, language: str) -> str:
    """The page in a language, "en" or "zh"."""
    words, rows, machine = WORDS[language], results["rows"], results["machine"]
    parts, networks = results["parts"], results["networks"]
    intro = words["intro"].format(
        command=COMMAND, processor=machine["processor"], cores=machine["cores"]
    )
    runs = [[f"`{t}`", _runner(results["runs_by"][t], words)] for t in rows]
    sections = {
        words["rows"]: _table([words["platform"], words["runs"]], runs),
        words["operators"]: f"{words['operators_text']}\n\n{_cells(rows, parts, _cases, words)}",
        words["networks"]: f"{words['networks_text']}\n\n{_cells(rows, networks, _apart, words)}",
        words["sizes"]: f"{words['sizes_text']}\n\n{_cells(rows, networks, _kib, words)}",
        words["untried"]: _untried(results, words),
    }
    texts = [f"## {title}\n{text}" for title, text in sections.items()]
    return "\n\n".join([f"# {words['title']}", intro, *texts]) + "\n"


def _runner(name: str, words: Mapping[str, str]) -> str:
    return words["here"] if not name else words.get(name, name)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cells(rows: Results, names: Sequence[str], text: Any, words: Mapping[str, str]) -> str:
    """A table of platforms and what was tried on them."""

    def cell(answer: Mapping[str, Any] | None) -> str:
        if answer is None:
            return words["missing"]
        if "error" in answer and "Assertion" in answer["error"] and "qemu" in answer["error"]:
            return words["broken"]
        if "error" in answer:
            return words["wrong"].format(error=answer["error"].replace("|", "\\|"))
        return str(text(answer))

    lines = [[f"`{t}`", *(cell(row.get(name)) for name in names)] for t, row in rows.items()]
    return _table([words["platform"], *names], lines)


def _cases(answer: Mapping[str, Any]) -> str:
    return str(answer["cases"])


def _apart(answer: Mapping[str, Any]) -> str:
    return f"{answer['difference']:.0e}"


def _kib(answer: Mapping[str, Any]) -> str:
    return f"{answer['library_bytes'] / 1024:.0f}"


def _untried(results: Results, words: Mapping[str, str]) -> str:
    tried = {name.partition("+")[0].removesuffix("-musl") for name in results["rows"]}
    tried |= {f"linux-{name}".replace("x86-64", "x86_64") for name in tried}
    others = {name: row for name, row in PLATFORMS.items() if name not in tried}
    apart = [f"`{name}`" for name, row in others.items() if "qemu-system" in row.tested]
    names = [f"`{name}`" for name in others if f"`{name}`" not in apart]
    lines = [words["untried_text"].format(names=", ".join(names))] if names else []
    lines += [words["apart"].format(names=", ".join(apart))] if apart else []
    lines += [
        words["reason"].format(target=f"`{target}`", reason=reason)
        for target, reason in results["not_run"].items()
    ]
    return "\n".join(f"* {line}" for line in lines)


def write(results: Results) -> None:
    """Write both pages; the Chinese one with the stamp of the English one."""
    from tests.chinese import stamp

    PAGES["en"].write_text(page(results, "en"), "utf-8")
    PAGES["zh"].write_text(stamp("matrix") + page(results, "zh"), "utf-8")


if __name__ == "__main__":
    write(json.loads(RESULTS.read_text("utf-8")))
