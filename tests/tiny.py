"""Configurations of tiny models that train in seconds, and exports of small files."""

import io
import zipfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from nmt_keras.config import (
    AttentionConfig,
    DecoderConfig,
    EncoderConfig,
    ModelConfig,
    Recipe,
    SearchConfig,
    TokenizerConfig,
    TrainConfig,
)
from nmt_keras.corpus import Pair
from nmt_keras.recipes import RECIPES
from nmt_keras.training import Checkpoints, Progress, Updater

TINY_MODEL = ModelConfig(
    embedding_size=5,
    encoder=EncoderConfig(units=7),
    attention=AttentionConfig(units=13),
    decoder=DecoderConfig(units=11, output_units=17),
    dropout=0.1,
)


TINY_TEXT = TokenizerConfig(kind="word", vocabulary_size=200, max_tokens=30)


TINY_RECIPE = Recipe(
    name="tiny",
    source=TINY_TEXT,
    target=TINY_TEXT,
    model=TINY_MODEL,
    train=TrainConfig(
        steps=20,
        minutes=None,
        batch_size=16,
        length_buckets=1,
        learning_rate=0.02,
        warmup_steps=2,
        validations=1,
        validation_sentences=8,
        log_every=5,
        xla=False,
    ),
    search=SearchConfig(max_tokens=12),
)


OWN_LAYERS = """
import keras
import tensorflow as tf

import nmt_keras


@keras.saving.register_keras_serializable("own")
class OwnCell(nmt_keras.TanhCell):
    def advance(self, projected, state, dropout_mask=None):
        return tf.nn.relu(super().advance(projected, state, dropout_mask))


@keras.saving.register_keras_serializable("own")
class OwnScore(nmt_keras.GeneralScore):
    def scores(self, query, keys):
        return 2.0 * super().scores(query, keys)


nmt_keras.register("cell", "own", OwnCell)
nmt_keras.register("score", "own", lambda config, **common: OwnScore(**common))
"""
"""A module of a user: layers that the recipe's value "own" selects."""


def shrunk(name: str) -> ModelConfig:
    """Returns the model of a recipe with few units."""
    model = RECIPES[name].model
    width, units = TINY_MODEL.embedding_size, TINY_MODEL.decoder.output_units
    return replace(
        model,
        embedding_size=width,
        encoder=replace(model.encoder, units=TINY_MODEL.encoder.units),
        attention=replace(model.attention, units=TINY_MODEL.attention.units),
        decoder=replace(
            model.decoder,
            units=TINY_MODEL.decoder.units,
            output_units=width if model.decoder.tie_embeddings else units,
        ),
    )


def randomise(part: keras.layers.Layer, seed: int) -> None:
    """Assigns normal numbers to all variables, including biases: a bias of 0 would hide that it is not used."""
    random = np.random.default_rng(seed)
    for variable in part.trainable_variables:
        variable.assign(random.normal(0.0, 0.5, variable.shape))


def write_pairs(path: Path | str, pairs: Iterable[Pair], *more: str) -> Path:
    """Writes pairs to a TSV file, source first, then ``more`` lines. Returns the path."""
    lines = (f"{pair.source}\t{pair.target}\n" for pair in pairs)
    Path(path).write_text("".join([*lines, *more]), encoding="utf-8")
    return Path(path)


def write_sides(stem: Path | str, pairs: Iterable[Pair]) -> tuple[Path, Path]:
    """Writes pairs to two files whose lines correspond, ``stem`` with .es and .en. Returns the paths."""
    paths = Path(f"{stem}.es"), Path(f"{stem}.en")
    for path, lines in zip(paths, zip(*pairs, strict=True), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return paths


def zipped(members: dict[str, bytes]) -> bytes:
    """Returns a zip file of the contents of files by name."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def contents(folder: Path) -> dict[str, bytes]:
    """Returns the bytes of all files below a folder, by relative path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def make_versions(folder: Path, *names: str) -> None:
    """Creates versions of a model with a file and a folder each."""
    for name in names:
        (folder / name / "variables").mkdir(parents=True)
        (folder / name / "variables" / "variables.index").write_text("weights")
        (folder / name / "saved_model.pb").write_text(name)


def save_little(module: object, folder: str, signatures: object) -> None:
    """Replaces ``tf.saved_model.save`` where no test loads the model. Nothing is traced."""
    make_versions(Path(folder).parent, Path(folder).name)


def save_variables(module: tf.Module, folder: str, signatures: object) -> None:
    """Replaces ``tf.saved_model.save`` where tests read no more than the weights. Nothing is traced."""
    save_little(module, folder, signatures)
    tf.train.Checkpoint(root=module).write(f"{folder}/variables/variables")


def save_weights(model, folder, step):
    """Writes a model's weights into a run's ``checkpoints``, as the last and best checkpoint of a finished run."""
    saved = Checkpoints(folder, Updater(model, TINY_RECIPE.train))
    for name in ("last", "best"):
        saved.save(name, Progress(step=step, finished=True))
