"""Language models beside llama.cpp and OpenVINO GenAI: tokens a second of prompts and of answers,
each engine in a process of its own, in turns.

    python -m benchmarks.language MODEL.gguf --peer PYTHON [--threads 1,2] [--contexts 128,1900]
        [--against llama.cpp,openvino] [--rounds 5] [--json FILE]
    python -m benchmarks.language MODEL.gguf --peer PYTHON --answers 50 [--exact]

PYTHON is that of an environment with `xllamacpp` (llama.cpp) and `openvino-genai`. The prompt is of
random tokens, and answers go on behind tokens that end them. `--answers` compares greedy answers of
32 tokens with those of llama.cpp, which rounds activations to 8 bits block by block, as we do
without `--exact`; where they part, the gap of the logits of both tokens is printed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import infuse
from benchmarks import machine

ENGINES = ("llama.cpp", "openvino")
LENGTH = 32
CHILDREN = {
    "infuse": """
import infuse
model = infuse.LanguageModel(path, threads=threads, context=len(prompts[0]) + length + 8)
model.generate([5, 6, 7], max_tokens=4, ignore_eos=True)
for prompt in prompts:
    run = model.generate(prompt, max_tokens=length, ignore_eos=True)
    say(run.tokens, len(prompt) / run.prompt_seconds, (length - 1) / max(run.decode_seconds, 1e-9))
""",
    "llama.cpp": """
import urllib.request
import xllamacpp
options = xllamacpp.CommonParams()
options.model.path, options.n_ctx = path, len(prompts[0]) + length + 64
options.n_parallel, options.port, options.verbosity = 1, 0, -1
options.cpuparams.n_threads = options.cpuparams_batch.n_threads = threads
server = xllamacpp.Server(options)
def post(prompt, count):
    body = {"prompt": prompt, "n_predict": count, "ignore_eos": True, "cache_prompt": False,
            "temperature": 0, "return_tokens": True}
    request = urllib.request.Request(server.listening_address + "/completion",
        json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.loads(urllib.request.urlopen(request).read())
post([5, 6, 7], 4)
for prompt in prompts:
    answer = post(prompt, length)
    times = answer["timings"]
    say(answer["tokens"], times["prompt_per_second"], times["predicted_per_second"])
os._exit(0)
""",
    "openvino": """
import numpy
import openvino
import openvino_genai
how = {"INFERENCE_NUM_THREADS": threads}
pipeline = openvino_genai.LLMPipeline(path, "CPU", **how)
options = openvino_genai.GenerationConfig(max_new_tokens=length, ignore_eos=True, do_sample=False)
def run(prompt):
    return pipeline.generate(openvino.Tensor(numpy.array([prompt], numpy.int64)), options)
run([5, 6, 7])
for prompt in prompts:
    result = run(prompt)
    times = result.perf_metrics
    say(result.tokens[0], len(prompt) / (times.get_ttft().mean / 1e3), times.get_throughput().mean)
os._exit(0)
""",
}
HEAD = """
import json, os, sys
path, threads, length = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
prompts = json.load(open(sys.argv[4]))
def say(tokens, prompt, answer):
    print("result", json.dumps([list(map(int, tokens)), prompt, answer]), flush=True)
"""
Result = tuple[list[int], float, float]
"""Tokens of an answer, and tokens a second of its prompt and of itself."""


class Failed(Exception):
    """What an engine says when it ends without results."""


def run(
    engine: str, python: str, path: Path, threads: int, length: int, prompts: Sequence[list[int]]
) -> list[Result]:
    """The results of one engine in a process of its own; Failed where it gives none."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(prompts, file)
        file.flush()
        command = [python, "-c", HEAD + CHILDREN[engine], str(path), str(threads), str(length)]
        done = subprocess.run(
            [*command, file.name], capture_output=True, text=True, check=False, timeout=3600
        )
    lines = [line[7:] for line in done.stdout.splitlines() if line.startswith("result ")]
    if len(lines) != len(prompts):
        raise Failed(f"{engine}: {done.stderr.strip()[-400:]}")
    return [tuple(json.loads(line)) for line in lines]


def measured(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each number of threads and length of a prompt."""
    engines = ["infuse", *asked.against]
    for threads, context in product(asked.threads, asked.contexts):
        prompt = np.random.default_rng(0).integers(300, 20000, context).tolist()
        speeds: dict[str, list[Result]] = {engine: [] for engine in engines}
        for _ in range(asked.rounds):
            for engine in [*speeds]:
                python = sys.executable if engine == "infuse" else asked.peer
                try:
                    speeds[engine] += run(engine, python, asked.model, threads, 64, [prompt])
                except Failed as error:
                    print(f"left out: {error}", file=sys.stderr)
                    del speeds[engine]
        row: dict[str, Any] = {"threads": threads, "context": context}
        for number, what in ((1, "prompt"), (2, "answer")):
            row[what] = {
                engine: {
                    "best": max(r[number] for r in rs),
                    "median": median(r[number] for r in rs),
                }
                for engine, rs in speeds.items()
            }
            peers = [each["median"] for name, each in row[what].items() if name != "infuse"]
            if peers:
                row[f"{what}_ratio"] = row[what]["infuse"]["median"] / max(peers)
        yield row


def compare_answers(asked: argparse.Namespace) -> dict[str, Any]:
    """How many greedy answers are those of llama.cpp for LENGTH tokens, and where others part."""
    rng = np.random.default_rng(1)
    with infuse.LanguageModel(asked.model, exact=asked.exact) as model:
        words = (Path(infuse.__file__).parents[2] / "LICENSE").read_text().split()
        texts = [
            " ".join(words[at : at + 12]) for at in rng.integers(0, len(words) - 12, asked.answers)
        ]
        prompts = [model.vocabulary.encode(text, framed=True) for text in texts]
        longest = sorted(prompts, key=len, reverse=True)
        theirs = run("llama.cpp", asked.peer, asked.model, 2, LENGTH, longest)
        parted = []
        for prompt, (tokens, *_) in zip(longest, theirs):
            own = model.generate(prompt, max_tokens=LENGTH, ignore_eos=True).tokens
            same = next((i for i, (a, b) in enumerate(zip(own, tokens)) if a != b), None)
            if same is not None:
                logits = model.logits([*prompt, *own[:same]])[-1]
                parted.append({"at": same, "gap": float(logits[own[same]] - logits[tokens[same]])})
    return {"answers": len(prompts), "equal": len(prompts) - len(parted), "parted": parted}


def main() -> None:
    """Print the rows, and write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)

    def numbers(text: str) -> list[int]:
        return [int(each) for each in text.split(",")]

    parser.add_argument("model", type=Path)
    parser.add_argument("--peer", required=True, help="the Python of the other engines")
    parser.add_argument("--against", type=lambda t: t.split(","), default=list(ENGINES))
    parser.add_argument("--threads", type=numbers, default=[1, 2])
    parser.add_argument("--contexts", type=numbers, default=[128, 1900])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--answers", type=int, default=0)
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    if asked.answers:
        rows: Any = compare_answers(asked)
        print(json.dumps(rows))
    else:
        rows = []
        for row in measured(asked):
            print(json.dumps(row), flush=True)
            rows.append(row)
    if asked.json:
        machine.save(asked.json, {"rows": rows})


if __name__ == "__main__":
    main()
