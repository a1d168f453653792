"""docs/interchange.md beside PyTorch, and beside transformers where that is installed."""

import re
from importlib.util import find_spec

import numpy as np
import pytest

import pd_core as pd
from tests.test_docs import EXAMPLE, OF_PYTORCH, ROOT, run

PAGE = ROOT / "docs" / "interchange.md"


@pytest.fixture
def page(tmp_path, monkeypatch):
    """The names that all examples of the page define, those of PyTorch included."""
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    blocks = sorted(
        [*EXAMPLE.finditer(text), *OF_PYTORCH.finditer(text)], key=lambda found: found.start()
    )
    with pd.fresh():
        yield run(PAGE, *blocks)


def gpt2_of_torch(tensors, config, ids):
    """The logits, written with PyTorch's functions on the tensors by their names."""
    torch = pytest.importorskip("torch")
    functions = torch.nn.functional
    w = {k: torch.tensor(np.asarray(v, np.float32)) for k, v in tensors.items()}
    width, heads = config["n_embd"], config["n_head"]

    def norm(x, name):
        return functions.layer_norm(x, (width,), w[f"{name}.weight"], w[f"{name}.bias"], 1e-5)

    def product(x, name):
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    ids = torch.tensor(ids)
    x = w["wte.weight"][ids] + w["wpe.weight"][: ids.shape[1]]
    for k in range(config["n_layer"]):
        parts = product(norm(x, f"h.{k}.ln_1"), f"h.{k}.attn.c_attn").split(width, dim=2)
        q, k_, v = (p.view(*p.shape[:2], heads, -1).transpose(1, 2) for p in parts)
        y = functions.scaled_dot_product_attention(q, k_, v, is_causal=True)
        x = x + product(y.transpose(1, 2).reshape(x.shape), f"h.{k}.attn.c_proj")
        y = functions.gelu(product(norm(x, f"h.{k}.ln_2"), f"h.{k}.mlp.c_fc"), approximate="tanh")
        x = x + product(y, f"h.{k}.mlp.c_proj")
    return (norm(x, "ln_f") @ w["wte.weight"].T).numpy()


def test_numbers_are_those_of_pytorch(page, tmp_path):
    np.testing.assert_allclose(page["same"], pd.eval(page["ours"](page["ids"])), atol=1e-5)
    np.testing.assert_allclose(page["got"], page["want"], atol=1e-5)
    want = gpt2_of_torch(page["folder"], page["config"], page["tokens"])
    np.testing.assert_allclose(page["logits"], want, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(find_spec("transformers") is None, reason="there is no transformers here")
def test_transformers_reads_the_folder(page, tmp_path):
    import torch
    import transformers

    model = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "gpt2").float().eval()
    with torch.no_grad():
        want = model(torch.tensor(page["tokens"])).logits.numpy()
    np.testing.assert_allclose(page["logits"], want, rtol=1e-4, atol=1e-4)
    model.save_pretrained(tmp_path / "theirs", max_shard_size="4KB")
    folder = pd.interchange.ModelFolder(tmp_path / "theirs")
    assert len(set(folder.files.values())) > 1
    again = page["GPT2"](folder.config).eval()
    again.load_dict(folder, mapping=page["names"])
    np.testing.assert_allclose(pd.eval(again(page["tokens"])), want, rtol=1e-4, atol=1e-4)


def test_the_error_of_the_page_is_the_real_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pd.fresh():
        run(PAGE)
    printed = capsys.readouterr().out
    text = PAGE.read_text(encoding="utf-8")
    shown = re.search(r"^    from_pytorch: .*\n(?:    .*\n)+", text, re.M).group(0)
    assert printed == re.sub("^    ", "", shown, flags=re.M)
