"""The guide "Add an attention score": its diffs apply, its test passes, and a model with the score trains."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs/guides/add-an-attention-score.md"
TRAIN = """
import sys
import numpy as np
import pytest

assert pytest.main(["-q", "-p", "no:cacheprovider", "-W", "ignore", "tests"]) == 0

from nmt_keras.config import AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig
from nmt_keras.models.seq2seq import build_model

sizes = {"encoder": EncoderConfig(units=7), "decoder": DecoderConfig(units=11, output_units=17)}
model = build_model(ModelConfig(5, attention=AttentionConfig("biased"), dropout=0.0, **sizes), 19, 23)
score = model.decoder.attention.score
assert type(score).__name__ == "BiasedScore", score

import keras
import tensorflow as tf

source, target, labels = (tf.constant([row] * 4) for row in ([4, 5, 6, 3], [2, 7, 8, 9], [7, 8, 9, 3]))
optimizer, losses = keras.optimizers.Adam(0.02), []
for _ in range(8):
    with tf.GradientTape() as tape:
        logits = model((source, target)).logits
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    losses.append(float(loss))
assert losses[-1] < 0.8 * losses[0], losses
assert np.abs(score.bias.numpy()).min() > 0.0
"""


@pytest.fixture
def patched_tree(tmp_path):
    """A copy of the package to which the guide's diffs are applied."""
    shutil.copytree(ROOT / "nmt_keras", tmp_path / "nmt_keras", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tests/models").mkdir(parents=True)
    shutil.copy(ROOT / "tests/models/test_builder.py", tmp_path / "tests/models")
    for diff in re.findall(r"^```diff\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        subprocess.run(["git", "apply", "-"], input=diff, text=True, cwd=tmp_path, check=True)
    return tmp_path


def test_the_guide_s_diffs_apply(patched_tree):
    assert (patched_tree / "tests/layers/test_biased_score.py").exists()


@pytest.mark.saved_model
def test_a_model_with_the_guide_s_score_trains(patched_tree):
    environment = {**os.environ, "PYTHONPATH": str(patched_tree)}
    ran = subprocess.run(
        [sys.executable, "-c", TRAIN], cwd=patched_tree, env=environment, capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
