"""Lints the words of names, docstrings, help texts and documentation: ``python tests/prose.py``.

A name with a replaced word and a docstring that begins with a question word are errors. Phrases that hide the subject
of a sentence are warnings.
"""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("nmt_keras", "serve", "benchmarks")
FOLDERS = (*PACKAGES, "notebooks", "docs", "tests")
NOT_PROSE = ROOT / "tests/repository/test_words.py"  # contains unclear phrases as the input of tests
QUESTION = re.compile(r"(What|Whether|How|Of|Why|Which|Who|Where|When)\b")
PHRASE = re.compile(
    r"\b([Nn]obody|[Ss]omebody|[Ww]hoever|[Aa]s it were|[Aa]t the (?:most|least)|"
    r"[Tt]hat one(?=[.,;:)]|$| (?:is|has|was)))\b"
)
REPLACED = {
    "accumulate": "gradient_accumulation_steps",
    "board": "callback",
    "carry": "state",
    "force": "log_likelihood",
    "partners": "shortlist",
    "price": "bias",
    "readout": "output_layer",
    "tied": "tie_embeddings",
    "walk": "iterate or batches",
}
"""Words that no name contains, and their replacements."""
REPLACED_FIELDS = {
    "feeds_attention": "input_feeding",
    "keep": "max_to_keep",
    "noise": "dropout",
    "shapes": "length_buckets",
    "start": "initial_state",
    "text": "tokenizer",
}
"""Names that no option has, and their replacements. Other names may use these words in another sense."""


def wrong_names(source):
    """Yields the line number and name of each definition in Python code with a replaced word, and the word to use."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.arg(arg=name)
                | ast.Name(id=name, ctx=ast.Store())
                | ast.Attribute(attr=name, ctx=ast.Store())
            ):
                words = name.lower().split("_")
                yield from (f"{node.lineno}: {name}: use {REPLACED[word]}" for word in words if word in REPLACED)
                kind = ast.unparse(node.annotation) if isinstance(node, ast.arg) and node.annotation else ""
                if "Tokenizer" in kind and {"text", "texts"} & {*words}:
                    yield f"{node.lineno}: {name}: use tokenizer"


def wrong_options(source):
    """Yields the line number and name of each field of a dataclass with a replaced name, and the name to use."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(one) for one in node.decorator_list):
            for field in node.body:
                match field:
                    case ast.AnnAssign(target=ast.Name(id=name), lineno=line) if name in REPLACED_FIELDS:
                        yield f"{line}: {name}: use {REPLACED_FIELDS[name]}"


def questions(source):
    """Yields the line number and first line of each docstring in Python code that begins with a question word."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text)), lineno=line) if QUESTION.match(text.strip()):
                yield f"{line}: {text.strip().splitlines()[0]}"


def phrases(text):
    """Yields the line number and the text of each unclear phrase."""
    for number, line in enumerate(text.splitlines(), start=1):
        yield from (f"{number}: {found[0]}" for found in PHRASE.finditer(line))


def files(*suffixes, folders=FOLDERS):
    """Returns the linted files with one of these suffixes."""
    found = [*ROOT.glob("*"), *(path for folder in folders for path in (ROOT / folder).rglob("*"))]
    return sorted(path for path in found if path.suffix in suffixes and path != NOT_PROSE)


def found_in(paths, check):
    """Returns the findings of a check in files. Each begins with the name of its file."""
    return [f"{path.relative_to(ROOT)}:{one}" for path in paths for one in check(path.read_text(encoding="utf-8"))]


def errors():
    """Returns the errors in all files."""
    return [
        *found_in(files(".py", folders=PACKAGES), wrong_names),
        *found_in(files(".py", folders=("nmt_keras/config", "nmt_keras/cli")), wrong_options),
        *(f"{error}: begin with what the object is or does" for error in found_in(files(".py"), questions)),
    ]


if __name__ == "__main__":
    for warning in found_in(files(".py", ".ipynb", ".md", ".html", ".js"), phrases):
        print(f"{warning}: unclear, see Style in CONTRIBUTING.md")
    sys.exit("\n".join(errors()) or 0)
