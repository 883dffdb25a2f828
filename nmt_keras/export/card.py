"""The model card of an exported version."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt_keras.export.contract import CONTRACT
from nmt_keras.manifest import EXTRA
from nmt_keras.markdown import escaped, table

if TYPE_CHECKING:
    from nmt_keras.translation.model_translator import ModelTranslator

CARD = Path(EXTRA) / "README.md"


def model_card(name: str, translator: ModelTranslator, manifest: Mapping[str, Any]) -> str:
    """Returns the model card as Markdown.

    Args:
        name: Name of the model on a server.
        translator: The exported translator.
        manifest: Facts about the model; see ``export``. If the corpus or the scores are missing, the card states this.
    """
    sections = [
        f"# {name}",
        _summary(translator, manifest),
        _training(
            manifest.get("corpus"),
            manifest.get("ancestors", ()),
            manifest["export"]["data_licence"],
            manifest.get("command"),
        ),
        _scores(manifest.get("scores")),
        _limits(translator, manifest["export"]["limitations"]),
        _signatures(),
        _usage(name),
        f"## Libraries\n\n{', '.join(map(' '.join, manifest['libraries'].items()))}. All facts are in manifest.json.",
    ]
    return "\n\n".join(sections) + "\n"


def _summary(translator: ModelTranslator, manifest: Mapping[str, Any]) -> str:
    languages = manifest.get("languages", {})
    between = f" from {languages['source']} to {languages['target']}" if len(languages) == 2 else ""
    weights = sum(math.prod(variable.shape) for variable in translator.model.variables)
    stored = "float16, converted to float32 when loaded" if manifest["export"]["half_precision"] else "float32"
    source, target = translator.source_tokenizer, translator.target_tokenizer
    facts = [
        ("parameters", f"{weights:,}, stored in {stored}"),
        ("source vocabulary", f"{source.vocabulary_size:,} entries, {source.config.kind}"),
        ("target vocabulary", f"{target.vocabulary_size:,} entries, {target.config.kind}"),
        ("search of `serving_default`", str(translator.search)),
    ]
    if recipe := manifest.get("recipe"):
        facts.insert(0, ("recipe", f"{escaped(recipe['name'])}: {_system(recipe['model'])}"))
    return (
        f"Neural machine translation with attention{between}. Inputs and outputs are strings: tokenization and search "
        f"are part of the graph.\n\n"
        f"{table(('', ''), facts)}"
    )


def _system(model: Mapping[str, Any]) -> str:
    """Describes the configuration of a model in one line."""
    encoder, decoder, attention = model["encoder"], model["decoder"], model["attention"]
    cell = f"{encoder['direction']} {encoder['cell']}" if encoder["kind"] == "recurrent" else "self-attention"
    if decoder["order"] == "self-attention":
        return f"{cell} encoder of {encoder['units']} units, self-attention decoder of {decoder['units']} units"
    return (
        f"{cell} encoder of {encoder['layers']} x {encoder['units']} units, {attention['kind']} attention, "
        f"{decoder['cell']} decoder of {decoder['layers']} x {decoder['units']} units, {decoder['order']}"
    )


def _training(
    corpus: Mapping[str, Any] | None, ancestors: Sequence[Mapping[str, Any]], licence: str | None, command: str | None
) -> str:
    if corpus is None:
        return "## Training\n\nNot recorded."
    before = {f"{each['checkpoint']['name']} of {each['run']}": each["corpus"] for each in ancestors}
    rows = [
        (escaped(f"{part}{of}"), f"{count:,}", f"`{facts['sha256'][part]}`")
        for of, facts in [
            ("", corpus),
            *((f" set of {facts['name']} for {run}", facts) for run, facts in before.items()),
        ]
        for part, count in facts["pairs"].items()
    ]
    facts = [
        f"Corpus: {corpus['name']}. Licence of the data: {licence or corpus.get('licence', 'not recorded')}."
        + "".join(f" Fine-tuned from {escaped(run)}." for run in before),
        table(("set", "pairs", "sha256"), rows),
    ]
    if command is not None:
        facts += [
            "Command of the recipe, without `--init-from`, `--more-minutes` and corpus options such as `--alignments`:",
            f"    {command}",
        ]
    return "\n\n".join(["## Training", *facts])


def _scores(scores: Mapping[str, Mapping[str, Any]] | None) -> str:
    if not scores:
        return "## Scores\n\nNot evaluated."
    names = ("bleu", "chrf", "exact", "sentences", "search", "signature")
    rows = [(part, *(escaped(str(score.get(name, ""))) for name in names)) for part, score in scores.items()]
    titles = ("set", "BLEU", "chrF", "exact, %", "sentences", "search", "sacreBLEU signature")
    return f"## Scores\n\nMeasured on raw, cased text with one reference translation.\n\n{table(titles, rows)}"


def _limits(translator: ModelTranslator, limitations: Sequence[str]) -> str:
    source, target = translator.source_tokenizer.config, translator.target_tokenizer.config
    unknown = (
        "The model reads a word outside the vocabulary as unknown. The translation may then contain `⁇`, unless the "
        "search replaces unknown words."
        if source.kind == "word"
        else "There are no unknown words: text outside the vocabulary is encoded as bytes."
    )
    known = "".join(f"\n- {escaped(each)}" for each in limitations)
    return f"""## Limits

- The model translates single sentences and has no access to previous ones. The signatures `text` and `sentences` \
split texts into sentences. For all other signatures, pass one sentence per string.
- A source sentence has at most {source.max_tokens} tokens, END included. If it has more, `truncated` is true and the \
rest is not translated. A translation has at most {translator.search.max_tokens} tokens. A target for the signature \
`score` has at most {target.max_tokens} tokens.
- {unknown} Bytes that are not UTF-8 are read as U+FFFD.
- Translations of text that is unlike the training data, or in another language, are often wrong. A low `score` is \
only a weak sign of this. Check names, numbers and negations.{known}"""


def _signatures() -> str:
    parts = [
        "## Signatures\n\nAxes: B sentences or texts, N sentences of a text, K hypotheses (best first), T target "
        "tokens, S source tokens. Every input is a string [B]."
    ]
    for name, signature in CONTRACT.items():
        rows = [
            (f"`{output}`", f"{one.dtype} [{','.join(one.axes)}]", escaped(one.meaning))
            for output, one in signature.outputs.items()
        ]
        inputs = ", ".join(f"`{text}`" for text in signature.inputs)
        parts.append(f"### {name}\n\n{inputs}: {signature.meaning}.\n\n{table(('output', 'type', 'meaning'), rows)}")
    return "\n\n".join(parts)


def _usage(name: str) -> str:
    return f"""## Usage

Over REST, with TensorFlow Serving or the embedded server:

    curl http://127.0.0.1:8501/v1/models/{name}:predict -d '{{"instances": ["..."]}}'
    curl http://127.0.0.1:8501/v1/models/{name}:predict -d '{{"signature_name": "align", "instances": ["..."]}}'

In Python, with a server:

    from nmt_keras_serve.client import Client
    with Client("http://127.0.0.1:8501", "{name}") as client:
        client.translate(["..."])

Without a server: `nmt_keras.load("{name}/VERSION").translate(["..."])`. The SavedModel needs TensorFlow and
tensorflow-text, but not Keras or nmt_keras."""
