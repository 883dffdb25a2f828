"""Writes the HTML file of a translator."""

import base64
import dataclasses
import gzip
import hashlib
import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sentencepiece

from nmt_keras.browser.bundling import bundle
from nmt_keras.browser.rules import text_rules
from nmt_keras.browser.support import require_supported
from nmt_keras.browser.weights import as_read, by_outputs, in_float16, in_int8, to_safetensors
from nmt_keras.config import SearchConfig
from nmt_keras.export.rebuilding import Parts
from nmt_keras.export.warmup import LARGE, example_sentences
from nmt_keras.io.files import write_whole
from nmt_keras.manifest import serving_search
from nmt_keras.text import Tokenizer
from nmt_keras.text.subword import SubwordTokenizer
from nmt_keras.translation.model_translator import ModelTranslator
from nmt_keras.version import VERSION

PIECE = 3 << 18
"""Bytes of an asset that one element holds. The page passes them to the worker one by one, without a long task."""
WEB = "../../serve/web/"
"""Path of the server's page for the modules of this package."""
CHECKED = 4
"""Number of sentences with which the page checks itself."""


def write_html(
    path: Path,
    name: str,
    parts: Parts,
    manifest: Mapping[str, Any],
    search: SearchConfig,
    web: Traversable,
    *,
    float16: bool = False,
) -> None:
    """Writes a translator as an HTML file.

    Args:
        path: The file. It is replaced at once when it is complete.
        name: Name of the model.
        parts: Parts of the translator.
        manifest: Facts about the model. The page shows its licence, limits, scores and languages.
        search: Search for translations.
        web: Folder of the server's page.
        float16: If ``True``, stores weights in float16, else in int8.

    Raises:
        ValueError: the engine cannot compute the model, a tokenizer or the search; or a weight is too large.
        OSError: the file cannot be written.
    """
    sides = {"source": parts.source, "target": parts.target}
    require_supported(parts.model, search, *(each.config for each in sides.values()))
    rows = (in_float16 if float16 else in_int8)(by_outputs(parts.weights))
    translator = parts._replace(weights=as_read(rows)).translator(search)
    facts = {
        "recipe": {"model": dataclasses.asdict(parts.model)},
        "search": dataclasses.asdict(search),
        "rules": text_rules(parts.source.known_words),
    }
    facts |= {side: tokenizer_facts(tokenizer) for side, tokenizer in sides.items()}
    assets = {"weights": to_safetensors(rows), "facts": json.dumps(facts, ensure_ascii=False).encode()}
    write_whole(path, _page(name, manifest, search, list(_checks(translator)), assets, web, float16))


def tokenizer_facts(tokenizer: Tokenizer) -> dict[str, Any]:
    """Returns the facts that the engine reads of a subword tokenizer. ``pieces`` [V] are texts with float32 scores."""
    assert isinstance(tokenizer, SubwordTokenizer)
    model = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
    return {
        "max_tokens": tokenizer.config.max_tokens,
        "known_words": tokenizer.known_words and tokenizer.known_words._asdict(),
        "pieces": [(model.id_to_piece(n), float(f"{model.get_score(n):.9g}")) for n in range(len(model))],
    }


def _checks(translator: ModelTranslator) -> Iterator[dict[str, Any]]:
    """Yields what the page must answer to a few sentences, greedily and by beam search."""
    sentences = example_sentences(translator.source_tokenizer)[:: LARGE // CHECKED]
    greedy = translator.with_search(translator.search.greedy)
    for signature, each in {"align": greedy, "beam": translator.with_search(serving_search(translator.search))}.items():
        for sentence, found in zip(sentences, each.translate([each.decode() for each in sentences]), strict=True):
            yield {
                "signature": signature,
                "sentence": sentence.decode(),
                "score": found.score,
                "sourceTokens": found.source_tokens,
                "tokens": found.tokens,
                "text": found.text,
            }


def _page(
    name: str,
    manifest: Mapping[str, Any],
    search: SearchConfig,
    checks: Sequence[Mapping[str, Any]],
    assets: Mapping[str, bytes],
    web: Traversable,
    float16: bool,
) -> str:
    """Returns the server's page with local modules, styles and assets in place of its files."""
    package = files("nmt_keras.browser")
    own = sorted(each.name for each in (package / "page").iterdir())
    replaced = {WEB + each: f"page/{each}" for each in own}

    def read(path: str) -> str:
        """Returns a file of this package or of the server's page."""
        file = web / path.removeprefix(WEB) if path.startswith(WEB) else package / path
        return file.read_text("utf-8")

    styles = "".join([read(WEB + "style.css"), *(read(f"page/{each}") for each in own if each.endswith(".css"))])
    fragments = "".join(read(f"page/{each}") for each in own if each.endswith(".html"))
    program = bundle(read, "page/main.js", replaced)
    settings = {
        "name": name,
        "search": "beam" if search.beam_size > 1 else "align",
        "limitations": manifest.get("export", {}).get("limitations", ()),
        **{f"{side}_language": code for side, code in manifest.get("languages", {}).items()},
    }
    config = {
        "models": [settings],
        "version": manifest.get("version", ""),
        "check": checks,
    }
    policy = (
        f"default-src 'none'; script-src {_source(program)} 'wasm-unsafe-eval'; style-src {_source(styles)}; "
        "worker-src blob:; img-src data:; form-action 'none'; base-uri 'none'"
    )
    icon = quote(read(WEB + "icon.svg"))
    data = [
        _element("application/json", json.dumps(config).replace("<", "\\u003c"), "config"),
        _element("text/plain", bundle(read, "page/worker.js", replaced), "worker"),
        f"<script>{program}</script>\n",
        *(_element("text/plain", piece, asset) for asset, content in assets.items() for piece in _pieces(content)),
    ]
    page = read(WEB + "index.html")
    for old, new in {
        r'content="default-src[^"]*"': f'content="{policy}"',
        r'href="icon\.svg"': f'href="data:image/svg+xml,{icon}"',
        r'<link rel="stylesheet"[^>]*>': f"<style>{styles}</style>",
        r' *<script type="module"[^>]*></script>\n': "",
        'id="result" aria-label="Translation"': 'id="result" role="tabpanel" aria-labelledby="tab-result"',
        r"</main>": f"{fragments}{_about(name, manifest, float16)}</main>",
        r"</body>": f"{''.join(data)}</body>",
    }.items():
        before, after = re.split(old, page)
        page = before + new + after
    return page


def _element(kind: str, content: str, name: str) -> str:
    """Returns an element with data that the page reads. In the page's modules, no text ends an element."""
    return f'<script type="{kind}" class="{name}">{content}</script>\n'


def _pieces(content: bytes) -> Iterator[str]:
    """Yields the pieces of an asset, compressed, as base64."""
    packed = gzip.compress(content, mtime=0)
    for begin in range(0, len(packed), PIECE):
        yield base64.b64encode(packed[begin : begin + PIECE]).decode()


def _source(content: str) -> str:
    """Returns the expression with which a Content-Security-Policy allows a script or a style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _about(name: str, manifest: Mapping[str, Any], float16: bool) -> str:
    """Returns the part of the page about licences."""
    config, corpus, score = manifest.get("export", {}), manifest.get("corpus"), manifest.get("scores", {}).get("test")
    rounded = f"before rounding to {'float16' if float16 else 'int8'}"
    facts = {
        "Model": name,
        "Training data": corpus["name"] if corpus else "not recorded",
        "Licence of the data": config.get("data_licence") or (corpus or {}).get("licence") or "not recorded",
        "BLEU of the test set": f"{score['bleu']} ({score['search']}, {rounded})" if score else "not evaluated",
        "Program": f"nmt_keras {VERSION}, Apache License 2.0",
    }
    rows = "".join(f"<dt>{key}</dt><dd>{html.escape(str(value))}</dd>" for key, value in facts.items())
    return (
        '<details id="about"><summary>About this translator</summary><p>It runs in this page: no text leaves this '
        "device. The browser's history keeps the text, because it is in the address.</p>"
        f'<dl>{rows}</dl><p id="check"></p></details>\n'
    )
