"""The sample corpus: its fixed content and its fixed split."""

from hashlib import sha256

import pytest

from nmt_keras.corpus.sample import sample_pairs
from nmt_keras.corpus.split import part_sha256, split_pairs

PAIRS = sample_pairs()
PARTS = split_pairs(PAIRS, key_side="target")


def test_the_corpus_and_its_order_are_the_published_ones():
    lines = "".join(f"{pair.target}\t{pair.source}\n" for pair in PAIRS)
    assert sha256(lines.encode()).hexdigest() == "3459d7d4262edfb29c706a0c993ddf6050a50a2647f27a2344c33e9a8217ea33"


@pytest.mark.parametrize(
    ("part", "size", "digest"),
    [
        ("train", 11_728, "95f1d29f09af89410678c51e6dd91353b4344b7fe42a3368f28a34ab95045af5"),
        ("valid", 379, "6abce390ea55863db2a7ea1b73f6bbfd2773721c642512b92f67145c06459e54"),
        ("test", 393, "d8e6c715415b0d8ec3fedfe79cb92fa1708ce72b1390e127ab9ae9422a208c60"),
    ],
)
def test_the_benchmark_split_of_the_corpus_is_fixed(part, size, digest):
    assert (len(PARTS[part]), part_sha256(PARTS[part], key_side="target")) == (size, digest)
