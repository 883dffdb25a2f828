"""The model's card: what whoever finds an exported version wants to know of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nmt_keras.export.contract import CONTRACT
from nmt_keras.export.versions import EXTRA
from nmt_keras.markdown import escaped, table
from nmt_keras.translation.model_translator import ModelTranslator

CARD = Path(EXTRA) / "README.md"


def model_card(name: str, translator: ModelTranslator, manifest: Mapping[str, Any]) -> str:
    """The card as Markdown.

    Args:
        name: under which a server will hold the version.
        translator: what is exported.
        manifest: facts about it; a section whose facts are missing says so or is left out.
    """
    sections = [
        f"# {name}",
        _what_it_is(translator, manifest),
        _training(manifest),
        _scores(manifest.get("scores", {})),
        _limits(translator),
        _signatures(),
        _calling(name),
        _made_with(manifest),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _what_it_is(translator: ModelTranslator, manifest: Mapping[str, Any]) -> str:
    languages = manifest.get("languages", {})
    both = f" from {languages['source']} to {languages['target']}" if {"source", "target"} <= languages.keys() else ""
    weights = sum(math.prod(variable.shape) for variable in translator.model.variables)
    recipe = manifest.get("recipe")
    texts = [("source", translator.source_tokenizer), ("target", translator.target_tokenizer)]
    facts = [
        ("recipe", f"{escaped(recipe['name'])}: {_system(recipe['model'])}" if recipe else ""),
        ("parameters", f"{weights:,}, stored in {_precision(manifest)}"),
        *((f"{side} vocabulary", f"{text.vocabulary_size:,} entries, {text.config.kind}") for side, text in texts),
        ("search of `serving_default`", str(translator.search)),
        ("concurrent requests", _concurrency(manifest)),
    ]
    known = table(("", ""), [(fact, value) for fact, value in facts if value])
    return (
        f"Neural machine translation with attention{both}: strings in, translations out, all in the graph.\n\n{known}"
    )


def _system(model: Mapping[str, Any]) -> str:
    """A model's configuration in a line."""
    encoder, decoder, attention = model["encoder"], model["decoder"], model["attention"]
    cell = f"{encoder['direction']} {encoder['cell']}" if encoder["kind"] == "recurrent" else "self-attention"
    if decoder["order"] == "self-attention":
        return f"{cell} encoder of {encoder['units']} units, self-attention decoder of {decoder['units']} units"
    return (
        f"{cell} encoder of {encoder['layers']} x {encoder['units']} units, {attention['kind']} attention, "
        f"{decoder['cell']} decoder of {decoder['layers']} x {decoder['units']} units, {decoder['order']}"
    )


def _precision(manifest: Mapping[str, Any]) -> str:
    return "float16, widened to float32 when it is loaded" if manifest["export"]["half_precision"] else "float32"


def _concurrency(manifest: Mapping[str, Any]) -> str:
    batching = manifest["export"]["micro_batching"]
    if not batching:
        return "each is answered by itself"
    return (
        f"merged inside the graph, up to {batching['max_batch_size']} sentences, waiting {batching['wait_ms']:g} ms at "
        f"the most; {batching['queue']} batches may wait, then UNAVAILABLE"
    )


def _training(manifest: Mapping[str, Any]) -> str:
    corpus = manifest.get("corpus")
    if not isinstance(corpus, Mapping):
        return "## Trained on\n\nNot recorded."
    rows = [
        (part, f"{count:,}", f"`{corpus.get('sha256', {}).get(part, '')}`")
        for part, count in corpus.get("pairs", {}).items()
    ]
    return f"## Trained on\n\nThe corpus {corpus.get('name', '')}.\n\n{table(('part', 'pairs', 'sha256'), rows)}"


def _scores(scores: Mapping[str, Mapping[str, Any]]) -> str:
    if not scores:
        return "## Scores\n\nNot evaluated."
    names = ("bleu", "chrf", "exact", "sentences", "search", "signature")
    rows = [(part, *(escaped(str(score.get(name, ""))) for name in names)) for part, score in scores.items()]
    titles = ("part", "BLEU", "chrF", "exact, %", "sentences", "search", "sacreBLEU signature")
    return f"## Scores\n\nOn raw, cased text, one reference each.\n\n{table(titles, rows)}"


def _limits(translator: ModelTranslator) -> str:
    source, target = translator.source_tokenizer.config, translator.target_tokenizer.config
    unknown = (
        "A word outside the vocabulary is translated as unknown, `⁇`, or replaced if the search says so."
        if source.kind == "word"
        else "There is no unknown word: what is not in the vocabulary is spelt in bytes."
    )
    return f"""## Limits

- One sentence per string: it was trained on sentences, and does not see the ones before. Split a text first; \
`nmt_keras_serve.client` does.
- A source is read up to {source.max_tokens} tokens, END included; `truncated` says that there was more, which is not \
translated. A translation has {translator.search.max_tokens} tokens at the most, a target to be scored \
{target.max_tokens}.
- {unknown} Bytes that are no UTF-8 are read as U+FFFD.
- It knows what its corpus knew. Tokenizer of another kind or language gets an answer all the same, a wrong one, and \
`score` is a weak warning of it. Names, numbers and negations deserve a second look."""


def _signatures() -> str:
    axes = "Axes: B sentence, K hypothesis, best first, T target token, S source token. Every input is a string [B]."
    parts = [f"## Signatures\n\n{axes}"]
    for name, signature in CONTRACT.items():
        rows = [
            (f"`{output}`", f"{one.dtype} [{','.join(one.axes)}]", one.meaning)
            for output, one in signature.outputs.items()
        ]
        inputs = ", ".join(f"`{text}`" for text in signature.inputs)
        parts.append(f"### {name}\n\n{inputs}: {signature.answers}.\n\n{table(('output', 'type', 'meaning'), rows)}")
    return "\n\n".join(parts)


def _calling(name: str) -> str:
    return f"""## Calling it

From TensorFlow Serving or the embedded server, over REST:

    curl http://127.0.0.1:8501/v1/models/{name}:predict -d '{{"instances": ["..."]}}'
    curl http://127.0.0.1:8501/v1/models/{name}:predict -d '{{"signature_name": "align", "instances": ["..."]}}'

or from Python:

    from nmt_keras_serve.client import Client
    with Client("http://127.0.0.1:8501", "{name}") as client:
        client.translate(["..."])

Without a server: `nmt_keras.load("{name}/VERSION").translate(["..."])`. The graph needs TensorFlow's operations and
those of tensorflow-text, neither Keras nor the code that made it."""


def _made_with(manifest: Mapping[str, Any]) -> str:
    libraries = ", ".join(f"{library} {version}" for library, version in manifest["libraries"].items())
    return f"## Made with\n\n{libraries}. All facts for machines: manifest.json."
