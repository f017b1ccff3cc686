#!/usr/bin/env bash
# llama.cpp (xllamacpp 2026.10.11549) with the pre-tokenizer "tekken" of GGUF files (Mistral's): words
# end before a combining mark, so that "a" followed by U+0301 is cut into the letter and the mark,
# and no merge of the two is found. Mistral's own pattern (mistral-common 1.8.8, tekken_240911.json)
# has letters and marks (\p{M}) in one class, so that they are one piece, and here one token.
# Composed letters (U+00E1) are one piece in both. So a decomposed text (of macOS file names, of
# Vietnamese, of Indic scripts) gets other tokens than the model was trained on.
#
# Guesses that miss: a file that names its pre-tokenizer is split as that tokenizer splits; and
# normalization, which Mistral's has none of, hides the difference.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet xllamacpp==2026.10.11549 gguf==0.19.0 \
  mistral-common==1.8.8 tokenizers==0.23.3 numpy
cat > "$folder/split.py" <<'PY'
import json, os, sys, urllib.request
from pathlib import Path
import gguf, mistral_common, numpy as np, tokenizers, xllamacpp

def shown(data):
    """Bytes as byte-level BPE writes them."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    names = {b: chr(b) for b in plain}
    names |= {b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in names)}
    return "".join(names[b] for b in data)

letter, first, second = b"a", b"\xcc", b"\x81"  # a, and the bytes of U+0301
tokens = [shown(bytes([b])) for b in range(256)]
tokens += [shown(first + second), shown(letter + first + second), "<end>"]
merges = [f"{shown(first)} {shown(second)}", f"{shown(letter)} {shown(first + second)}"]

path = sys.argv[1]
file = gguf.GGUFWriter(path, "llama")
for name, value in dict(context_length=64, embedding_length=32, block_count=1,
                        feed_forward_length=32, head_count=1, head_count_kv=1).items():
    getattr(file, f"add_{name}")(value)
file.add_layer_norm_rms_eps(1e-5)
file.add_rope_dimension_count(32)
file.add_tokenizer_model("gpt2")
file.add_tokenizer_pre("tekken")
file.add_token_list(tokens)
file.add_token_types([1] * 258 + [3])
file.add_token_merges(merges)
file.add_eos_token_id(258)
file.add_add_bos_token(False)
zeros = lambda *shape: np.zeros(shape, np.float32)
tensors = {"token_embd": zeros(259, 32), "output": zeros(259, 32), "output_norm": zeros(32)}
for name in ("attn_norm", "ffn_norm"):
    tensors[f"blk.0.{name}"] = zeros(32)
for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
    tensors[f"blk.0.{name}"] = zeros(32, 32)
for name, array in tensors.items():
    file.add_tensor(f"{name}.weight", array)
file.write_header_to_file()
file.write_kv_data_to_file()
file.write_tensors_to_file()
file.close()

tekken = Path(mistral_common.__file__).parent / "data" / "tekken_240911.json"
pattern = json.loads(tekken.read_text("utf-8"))["config"]["pattern"]
model = tokenizers.models.BPE({t: i for i, t in enumerate(tokens)}, [tuple(m.split()) for m in merges])
own = tokenizers.Tokenizer(model)
split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
byte_level = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
own.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([split, byte_level])

options = xllamacpp.CommonParams()
options.model.path, options.n_ctx, options.n_parallel, options.port = path, 64, 1, 0
options.verbosity, options.warmup = -1, False
server = xllamacpp.Server(options)
def theirs(text):
    body = json.dumps({"content": text, "add_special": False}).encode()
    request = urllib.request.Request(server.listening_address + "/tokenize", body,
                                     {"Content-Type": "application/json"})
    return json.loads(urllib.request.urlopen(request).read())["tokens"]
for text in ("a\u0301", "\u00e1"):
    name = " ".join(f"U+{ord(c):04X}" for c in text)
    print(f"{name}: llama.cpp {theirs(text)}, Mistral's pattern {own.encode(text).ids}", flush=True)
os._exit(0)
PY
output=$("$folder/venv/bin/python" "$folder/split.py" "$folder/tekken.gguf" 2> "$folder/log") || { cat "$folder/log" >&2; exit 1; }
echo "$output"
expected='U+0061 U+0301: llama.cpp [97, 256], Mistral'"'"'s pattern [257]
U+00E1: llama.cpp [195, 161], Mistral'"'"'s pattern [195, 161]'
[ "$output" = "$expected" ] || { echo "the behaviour has changed" >&2; exit 1; }
