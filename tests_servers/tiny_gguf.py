"""Writes a llama of a few thousand random weights as GGUF, and serves it: `python tiny_gguf.py FOLDER PORT`.

Its vocabulary is the 256 bytes and the printable ASCII characters, so that it reads and writes any text, all of it
nonsense. Runs in the environment of llama.cpp.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import gguf
import numpy as np
import xllamacpp

WIDTH, HEADS, INNER = 32, 2, 64
NAME = "tiny-random"
TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: "


def written(path: Path) -> None:
    """Write the model."""
    random = np.random.default_rng(7)
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *map(chr, range(33, 127)), "▁"]
    kinds = [2, 3, 3, *[6] * 256, *[1] * 95]  # unknown, control, bytes, normal
    file = gguf.GGUFWriter(str(path), "llama")
    file.add_name(NAME)
    file.add_context_length(32768)
    file.add_embedding_length(WIDTH)
    file.add_block_count(1)
    file.add_feed_forward_length(INNER)
    file.add_head_count(HEADS)
    file.add_head_count_kv(HEADS)
    file.add_layer_norm_rms_eps(1e-5)
    file.add_rope_dimension_count(WIDTH // HEADS)
    file.add_vocab_size(len(tokens))
    file.add_tokenizer_model("llama")
    file.add_token_list(tokens)
    file.add_token_scores([0.0] * len(tokens))
    file.add_token_types(kinds)
    file.add_bos_token_id(1)
    file.add_eos_token_id(2)
    file.add_unk_token_id(0)
    file.add_chat_template(TEMPLATE)
    shapes = {
        "token_embd": (len(tokens), WIDTH),
        "output": (len(tokens), WIDTH),
        **{f"blk.0.attn_{part}": (WIDTH, WIDTH) for part in ("q", "k", "v", "output")},
        "blk.0.ffn_gate": (INNER, WIDTH),
        "blk.0.ffn_up": (INNER, WIDTH),
        "blk.0.ffn_down": (WIDTH, INNER),
    }
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        file.add_tensor(f"{name}.weight", np.ones(WIDTH, np.float32))
    for name, shape in shapes.items():
        file.add_tensor(f"{name}.weight", (random.standard_normal(shape) * 0.3).astype(np.float32))
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


def served(path: Path, port: int) -> None:
    """Serve the model until the process is ended."""
    settings = xllamacpp.CommonParams()
    settings.model.path = str(path)
    settings.model_alias = {NAME}
    settings.hostnames = ["127.0.0.1"]
    settings.port = port
    settings.n_ctx = 32768
    settings.n_parallel = 2
    settings.kv_unified = True
    settings.cpuparams.n_threads = 1
    settings.warmup = False
    settings.use_jinja = True
    server = xllamacpp.Server(settings)
    print(server.listening_address, flush=True)
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    file = Path(sys.argv[1]) / "tiny.gguf"
    written(file)
    served(file, int(sys.argv[2]))
