"""Oracle: the preset table, the operations of every product, and what the page assumes."""

import pytest

from keras_albert.models.presets import PRESETS, parameter_count
from tests.conftest import ROOT

pytestmark = pytest.mark.backend_free
CONFIG = PRESETS["albert_xxlarge_v2"]
H, N, L, WIDE = (
    CONFIG[name] for name in ("hidden_dim", "num_heads", "num_layers", "intermediate_dim")
)
E, V = CONFIG["embedding_dim"], CONFIG["vocabulary_size"]
BATCH, STEPS = 4096, 125_000
HEADS = {"mlm_head": True, "sentence_head": True}
PARAMETERS = parameter_count(CONFIG, **HEADS)
UNSHARED = parameter_count({**CONFIG, "sharing": "none"}, **HEADS)
STATE = 18 * PARAMETERS / 1e9  # float32: weights, two moments, gradients; weights in bfloat16


@pytest.fixture(scope="module")
def page():
    return (ROOT / "docs" / "xxlarge_4096.md").read_text(encoding="utf-8")


def blocks(length):
    """Operations of the blocks of an example, forward: its weights, scores, weighted values."""
    return L * length * (2 * (4 * H * H + 2 * H * WIDE) + 4 * length * H)


def forward(length):
    predictions = -(-15 * length // 100)
    return blocks(length) + 2 * length * E * H + 2 * predictions * (H * E + E * V) + 2 * H * H


def step(length, remat=False):
    return BATCH * (3 * forward(length) + remat * blocks(length))


def activations(length, fused, remat):
    """Bytes of an example."""
    block = 32 * H + (0 if fused else 2 * N * length)
    logits = 3 * 4 * -(-15 * length // 100) * V
    return length * (2 * H * L + block if remat else L * block) + logits


def test_the_model(page):
    assert f"| {PARAMETERS:,} |" in page
    assert f"| {UNSHARED:,}: {UNSHARED / PARAMETERS:.1f} times as many |" in page
    assert f"| {(UNSHARED - PARAMETERS) // (L - 1):,} |" in page
    for what, numbers in (
        ("{:.2f} TFLOP at length 512, {:.2f} at 128", [forward(s) / 1e12 for s in (512, 128)]),
        ("{:.2f}; {:.2f} TFLOP", [3 * forward(s) / 1e12 for s in (512, 128)]),
        ("{:.2f}; {:.2f} TFLOP", [step(s, True) / BATCH / 1e12 for s in (512, 128)]),
        ("{:.1f}; {:.2f} PFLOP", [step(s) / 1e15 for s in (512, 128)]),
        ("{:.1f}; {:.1f} PFLOP", [step(s, True) / 1e15 for s in (512, 128)]),
    ):
        assert what.format(*numbers) in page
    assert f"{STEPS * step(512):.2e}".replace("e+", "e") in page
    assert f"{STEPS * (0.9 * step(128) + 0.1 * step(512)):.2e}".replace("e+", "e") in page
    paper = STEPS * step(512) / (32 * 3600)
    assert f"{paper / 1e15:.1f} PFLOP/s, {paper / (512 * 123e12):.0%} of 512" in page


def test_memory(page):
    for name, size in (
        ("weights, float32", 4),
        ("LAMB's two moments", 8),
        ("gradients", 4),
        ("weights in bfloat16, while they are used", 2),
    ):
        assert f"| {name} | {size * PARAMETERS / 1e9:.2f} |" in page
    assert f"| **{STATE:.2f}** |" in page and f"{STATE:.1f} GB a device" in page
    for name, fused, remat in (
        ("fused attention", True, False),
        ("without a kernel", False, False),
        ("`remat`, fused attention", True, True),
        ("`remat`, without a kernel", False, True),
    ):
        long, short = (activations(length, fused, remat) / 1e6 for length in (512, 128))
        assert f"| {name} | {long:,.0f} | {short:,.0f} |" in page


@pytest.mark.parametrize(
    "devices, rate, fused, room, rows",
    [
        (8, 0.4 * 989e12, True, 80, [(512, 8, False), (512, 2, True), (128, 2, False)]),
        (128, 0.45 * 275e12, False, 32, [(512, 2, False), (512, 1, True), (128, 1, False)]),
    ],
)
def test_times_on_devices(page, devices, rate, fused, room, rows):
    hours = {}
    for length, parts, remat in rows:
        examples = BATCH // devices // parts
        memory = examples * activations(length, fused, remat) / 1e9
        assert memory + STATE < 0.9 * room
        seconds = step(length, remat) / (devices * rate)
        hours[length, remat] = seconds * STEPS / 3600
        how = f"{parts}, {examples} at a time" if parts > 1 else "1"
        name = f"length {length}" + remat * ", `remat`"
        size = f"{memory:.1f}" if memory < 10 else f"{memory:.0f}"
        row = f"| {name} | {how} | {size} GB | {seconds:.1f} s | {hours[length, remat]:.0f} h |"
        assert row in page
    phases = 0.9 * hours[128, False] + 0.1 * hours[512, False]
    assert f"| | {phases:.0f} h |" in page
    whole = f"{hours[512, False]:.0f}"
    assert (f"{whole} hours on 8 GPUs" if devices == 8 else f"or {whole} on 128 TPU chips") in page


def test_bytes_that_are_sent(page):
    gradients, unshared = 4 * PARAMETERS / 1e9, 4 * UNSHARED / 1e9
    sent = 2 * 7 / 8 * gradients
    assert f"sums {gradients:.2f} GB of gradients" in page
    assert f"{sent:.2f} GB leave" in page and f"in {sent / 450 * 1e3:.1f} ms" in page
    assert f"it would be {unshared:.2f} GB" in page
    network = [2 * 7 / 8 * size / (25 / 8) for size in (gradients, unshared)]
    assert f"{network[0]:.1f} s against {network[1]:.1f} s" in page
    assert f"{2 * 127 / 128 * gradients:.2f} GB leave each chip" in page
