"""Recipes: each builds a model, documents its command, and has the hyperparameters of its paper."""

import functools
import time
from dataclasses import replace

import keras
import pytest
import tensorflow as tf

from nmt_keras.config import (
    END,
    START,
    AttentionConfig,
    DecoderConfig,
    EncoderConfig,
    ModelConfig,
    Recipe,
    SearchConfig,
    TokenizerConfig,
    TrainConfig,
)
from nmt_keras.models.seq2seq import build_model
from nmt_keras.recipes import RECIPES, find_recipe, to_yaml


@pytest.mark.parametrize("name", {recipe.model.scaled(0.02): name for name, recipe in RECIPES.items()}.values())
def test_a_recipe_builds_a_model_that_answers(name):
    keras.utils.set_random_seed(1)
    model = build_model(RECIPES[name].model.scaled(0.02), 11, 13)
    output = model((tf.constant([[4, 5, END]]), tf.constant([[START, 6]])))
    assert output.logits.shape == (1, 2, 13)
    assert output.alignment.shape == (1, 2, 3)


def test_each_rung_of_luong_s_ladder_adds_one_thing():
    """Rungs add reversal, dropout with a longer schedule, attention, input feeding, and a window."""
    rungs = {rung: find_recipe(f"luong-{rung}") for rung in LADDER}
    models = {rung: recipe.model for rung, recipe in rungs.items()}
    without = {
        "reverse": ("base", lambda model: replace(model, encoder=replace(model.encoder, direction="forward"))),
        "dropout": ("reverse", lambda model: replace(model, dropout=0.0)),
        "location": (
            "dropout",
            lambda model: replace(
                model,
                attention=AttentionConfig("none"),
                decoder=replace(model.decoder, output="state", output_units=models["dropout"].decoder.output_units),
            ),
        ),
        "feed": ("location", lambda model: replace(model, decoder=replace(model.decoder, input_feeding=False))),
        **dict.fromkeys(
            ("dot", "general", "concat"),
            ("feed", lambda model: replace(model, attention=models["feed"].attention)),
        ),
        "local-m": ("general", lambda model: replace(model, attention=replace(model.attention, span="global"))),
        "local-p": ("general", lambda model: replace(model, attention=AttentionConfig("general"))),
        "replace": ("local-p", lambda model: model),
    }

    for rung, (below, taken_back) in without.items():
        assert taken_back(models[rung]) == models[below], rung
        assert replace(rungs[rung].search, replaces_unknown=False) == rungs[below].search
        assert (rungs[rung].source, rungs[rung].target) == (rungs[below].source, rungs[below].target)
        if rung != "dropout":
            assert rungs[rung].train == rungs[below].train


WORDS = {"kind": "word", "lowercase": False}
BAHDANAU = {  # Bahdanau, Cho, Bengio 2014, appendices A.2.3, B.1 and B.2
    "source": {**WORDS, "vocabulary_size": 30_004, "strip_accents": False},
    "target": {**WORDS, "vocabulary_size": 30_004, "strip_accents": False},
    "model": {"embedding_size": 620, "dropout": 0.0, "initializer": "bahdanau"},
    "model.encoder": {"cell": "gru", "units": 1000, "layers": 1},
    "model.attention": {"span": "global", "units": 1000},
    "model.decoder": {
        "order": "attend-then-update",
        "cell": "gru",
        "units": 1000,
        "layers": 1,
        "output": "maxout",
        "output_units": 500,
        "output_state": "previous",
    },
    "train": {
        "optimizer": "adadelta",
        "learning_rate": 1.0,
        "rho": 0.95,
        "epsilon": 1e-6,
        "clip_norm": 1.0,
        "batch_size": 80,
        "pool_size": 1600,
        "denominator": "sentences",
        "label_smoothing": 0.0,
        "decay": "constant",
        "warmup_steps": 0,
    },
}
LADDER = ("base", "reverse", "dropout", "location", "feed", "dot", "general", "concat", "local-m", "local-p", "replace")
LUONG = {  # Luong, Pham, Manning 2015, sections 3.2 and 4.1
    "source": {**WORDS, "vocabulary_size": 50_004},
    "target": {**WORDS, "vocabulary_size": 50_004},
    "model": {"embedding_size": 1000, "initializer": "uniform"},
    "model.encoder": {"cell": "lstm", "units": 1000, "layers": 4},
    "model.decoder": {
        "order": "update-then-attend",
        "cell": "lstm",
        "units": 1000,
        "layers": 4,
        "initial_state": "last",
    },
    "train": {
        "optimizer": "sgd",
        "learning_rate": 1.0,
        "clip_norm": 5.0,
        "batch_size": 128,
        "max_tokens": 51,
        "decay": "halving",
        "warmup_steps": 0,
        "label_smoothing": 0.0,
    },
}
FIGURES = [
    *((f"{kind}-{words}", BAHDANAU) for kind in ("rnnsearch", "rnnencdec") for words in (30, 50)),
    *(
        (f"{kind}-{words}", {"train": {"max_tokens": words + 1}})
        for kind in ("rnnsearch", "rnnencdec")
        for words in (30, 50)
    ),
    *(
        (
            f"{kind}-{words}",
            {
                "model.encoder": {"direction": direction},
                "model.attention": {"kind": attention},
                "model.decoder": {"initial_state": start},
            },
        )
        for kind, direction, attention, start in (
            ("rnnsearch", "bidirectional", "additive", "backward"),
            ("rnnencdec", "forward", "fixed", "forward"),
        )
        for words in (30, 50)
    ),
    *((f"luong-{rung}", LUONG) for rung in LADDER),
    *((f"luong-{rung}", {"train": {"epochs": 10.0, "halve_every": 0.1}}) for rung in LADDER[:2]),
    *((f"luong-{rung}", {"train": {"epochs": 12.0, "halve_every": 1 / 12}}) for rung in LADDER[2:]),
    *(
        (f"luong-{span}", {"model.attention": {"kind": "general", "span": span, "window": 10}})
        for span in ("local-m", "local-p")
    ),
    (
        "tutorial",
        {
            "corpus": {"first": 30_000, "split": "shuffled-groups"},
            "source": {"kind": "word", "lowercase": True, "strip_accents": True},
            "model": {"embedding_size": 256, "dropout": 0.0},
            "model.encoder": {"units": 1024, "direction": "forward", "layers": 1},
            "model.attention": {"kind": "additive", "units": 1024},
            "model.decoder": {
                "order": "attend-then-update",
                "units": 1024,
                "initial_state": "last",
                "output": "state",
            },
            "train": {
                "optimizer": "adam",
                "learning_rate": 1e-3,
                "batch_size": 64,
                "epochs": 10.0,
                "beta_2": 0.999,
                "epsilon": 1e-8,
                "clip_norm": None,
                "denominator": "sentences",
                "label_smoothing": 0.0,
                "log_every": 100,
                "validations": 5,
            },
        },
    ),
    (
        "rnnsearch-pytorch",  # s_0 from both last states, attention with s_{i-1}, dropout on embeddings
        {
            "model": {"dropout": 0.5, "output_dropout": 0.0, "recurrent_dropout": 0.0},
            "model.encoder": {"cell": "gru-reset-after", "direction": "bidirectional", "layers": 1},
            "model.attention": {"kind": "additive"},
            "model.decoder": {
                "order": "attend-then-update",
                "cell": "gru-reset-after",
                "initial_state": "both",
                "output": "linear",
                "output_state": "current",
            },
        },
    ),
    (
        "lecture-rnn",
        {
            "model.encoder": {"cell": "tanh", "direction": "forward", "layers": 1},
            "model.attention": {"kind": "none"},
            "model.decoder": {
                "cell": "tanh",
                "shares_recurrence": True,
                "reads_words": False,
                "initial_state": "last",
                "output": "state",
            },
        },
    ),
]


@pytest.mark.parametrize(("name", "figures"), FIGURES)
def test_a_recipe_has_the_figures_of_its_paper(name, figures):
    recipe = find_recipe(name)
    for path, fields in figures.items():
        record = functools.reduce(getattr, path.split("."), recipe)
        assert {field: getattr(record, field) for field in fields} == fields
    if name not in ("lecture-rnn", "rnnsearch-pytorch"):
        assert recipe.train.patience >= recipe.train.validations  # the paper does not stop early


def test_each_recipe_of_the_lecture_adds_one_extension():
    """Each recipe adds one extension of cs224d, lecture 9."""
    base, separate, fed, deep, bidirectional, backward = (
        find_recipe(f"lecture-{name}").model for name in ("rnn", "separate", "fed", "deep", "bidirectional", "reversed")
    )
    assert separate == replace(base, decoder=replace(base.decoder, shares_recurrence=False))
    assert fed == replace(
        separate, attention=AttentionConfig("fixed"), decoder=replace(separate.decoder, reads_words=True)
    )
    assert deep == replace(fed, encoder=replace(fed.encoder, layers=2), decoder=replace(fed.decoder, layers=2))
    assert (bidirectional.encoder.direction, backward.encoder.direction) == ("bidirectional", "backward")
    assert backward == replace(deep, encoder=replace(deep.encoder, direction="backward"))
    assert bidirectional.encoder.layers == bidirectional.decoder.layers == 2


@pytest.mark.parametrize(
    ("name", "field"), [("search", "SearchConfig"), ("target", "TokenizerConfig"), ("train", "TrainConfig")]
)
def test_more_tokens_than_positions_of_a_self_attention_decoder_are_rejected(name, field):
    parts = ModelConfig(
        encoder=EncoderConfig("self-attention", units=8),
        attention=AttentionConfig("dot"),
        decoder=DecoderConfig("self-attention", units=8, output="state", max_positions=20),
    )
    short = {
        "search": SearchConfig(max_tokens=20),
        "target": TokenizerConfig(max_tokens=20),
        "train": TrainConfig(max_tokens=20),
    }
    with pytest.raises(ValueError, match=rf"{field}\.max_tokens.*DecoderConfig\.max_positions \(20\)"):
        Recipe("own", model=parts, **{**short, name: type(short[name])(max_tokens=21)})
    assert Recipe("own", model=parts, **short).search.max_tokens == 20


def test_sources_longer_than_location_attention_are_rejected():
    parts = ModelConfig(attention=AttentionConfig("location", max_source_positions=30))
    with pytest.raises(ValueError, match=r"TrainConfig\.max_tokens: .* 40"):
        Recipe("own", model=parts, train=TrainConfig(max_tokens=40))
    assert Recipe("own", model=parts, train=TrainConfig(max_tokens=30)).train.max_tokens == 30


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize(
    ("file", "printed"), [("a.yaml", to_yaml), ("a.yml", Recipe.to_json), ("a.json", Recipe.to_json)]
)
def test_a_recipe_printed_as_yaml_or_json_is_read_from_a_file(name, file, printed, tmp_path):
    (tmp_path / file).write_text(printed(RECIPES[name]))
    assert find_recipe(str(tmp_path / file)) == RECIPES[name]


def test_a_recipe_file_may_leave_out_fields_and_write_numbers_as_json_does(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("name: mine\ntrain: {learning_rate: 1e-3, epsilon: 1e-8, minutes: null, epochs: 3}\n")
    train = TrainConfig(learning_rate=0.001, epsilon=1e-8, minutes=None, epochs=3)
    assert find_recipe(str(file)) == Recipe(name="mine", train=train)


@pytest.mark.parametrize(
    ("text", "received"),
    [
        ("name: [", "YAML"),
        ("- 1\n", "Recipe: expected an object"),
        ("name: a\ntrain: {minuets: 3}\n", "minuets"),
        ("name: a\ntrain: {batch_size: 0}\n", "batch_size"),
        ("name: a\ntrain: {batch_size: 010}\n", "received 10.0. Write 10"),  # YAML 1.1 would read 8
        ("name: a\ntrain: {minutes: 1:30}\n", "received '1:30'"),
        ("name: a\ntrain: {xla: no}\n", "expected true or false or null, received 'no'"),
        ("name: a\ntrain: {seed: 1, seed: 2}\n", "several values of seed"),
        ("name: a/b\n", "name: expected a name without /"),
    ],
)
def test_a_file_that_holds_no_recipe_is_refused_with_what_is_wrong(text, received, tmp_path):
    (tmp_path / "bad.yaml").write_text(text)
    (tmp_path / "twice.json").write_text('{"name": "a", "name": "b"}')
    with pytest.raises(ValueError, match="several values of name"):
        find_recipe(str(tmp_path / "twice.json"))
    with pytest.raises(ValueError, match=received):
        find_recipe(str(tmp_path / "bad.yaml"))
    with pytest.raises(FileNotFoundError, match=r"none\.yaml"):
        find_recipe(str(tmp_path / "none.yaml"))


BOMBS = {
    "aliases": ("a: &a [x, x]\nb: &b [*a, *a]\nname: *b\n", "line 1 has an anchor, alias or tag"),
    "alias": ("name: *a\n", "line 1 has an anchor"),
    "key": ("name: a\n? *a\n: 1\n", "line 2 has an anchor"),
    "merged anchor": ("base: &base {seed: 1}\nname: a\ntrain: {<<: *base}\n", "line 1 has an anchor"),
    "merged": ("name: a\ntrain: {<<: {seed: 1}}\n", "train.<<: expected one of steps, epochs, "),
    "time": ("name: a\nsource: !!timestamp 2026-01-01\n", "line 2 has an anchor"),
    "bytes": ("name: a\nsource: !!binary eA==\n", "line 2 has an anchor"),
    "set": ("name: a\nsource: !!set {x}\n", "line 2 has an anchor"),
    "pairs": ("name: a\nsource: !!omap [x: 1]\n", "line 2 has an anchor"),
    "no bool": ("name: a\nsource: !!bool maybe\n", "line 2 has an anchor"),
    "no int": ('name: a\nsource: !!int ""\n', "line 2 has an anchor"),
    "code": ("name: a\nsource: !!python/name:os.system\n", "line 2 has an anchor"),
    "list as key": ("name: a\n[b, c]: 1\n", "unhashable key"),
    "object as key": ("{b: c}: 1\n", "unhashable key"),
    "long number": (f"name: a\ntrain: {{seed: {'9' * 5000}}}\n", "4300 digits"),
    "digits": (f"name: {'1' * 60_000}x/", "a name without /"),
    "lists": (f"name: {'[' * 40}{']' * 40}", "32 nested levels"),
    "objects": (f"name: {'{a: ' * 40}{'}' * 40}", "32 nested levels"),
    "open lists": ("name: " + "[" * 60_000, "recursion depth"),
    "open objects": ("name: " + "{a: " * 15_000, "recursion depth"),
    "indented lists": ("name:\n" + "".join(f"{' ' * level}- \n" for level in range(300)), "nested|recursion"),
    "lists on a line": ("name: a\nsource:\n" + "- " * 30_000, "recursion depth"),
    "keys": ("".join(f"k{number}: 1\n" for number in range(6000)), "k0: expected one of name, corpus, "),
    "comment": ("#" * (1 << 16), "at most 65,536 bytes"),
}
"""Recipes that would take much time or memory, or would end in an error without the name of the file."""


@pytest.mark.parametrize(("text", "received"), BOMBS.values(), ids=BOMBS)
def test_a_recipe_of_any_content_is_read_or_refused_at_once(text, received, tmp_path):
    (tmp_path / "bad.yaml").write_text(text)
    start = time.thread_time()
    with pytest.raises(ValueError, match=rf"(?s)bad\.yaml.*({received})"):
        find_recipe(str(tmp_path / "bad.yaml"))
    assert time.thread_time() - start < 20
