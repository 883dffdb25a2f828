"""Languages and scripts: codes of any standard, and what a script decides."""

import pytest

from nmt_keras.corpus.options import CorpusOptions
from nmt_keras.languages import bleu_tokenizer, has_spaces, is_spaceless, script


@pytest.mark.parametrize(
    ("codes", "wanted", "tokenizer", "spaces"),
    [
        ("zh zho chi cmn zh-CN zh_Hans wuu ZH", "Hans", "zh", False),
        ("zh-TW zh-Hant zh-HK yue", "Hant", "zh", False),
        ("ja jpn ja-JP", "Jpan", "ja-mecab", False),
        ("ko kor", "Kore", "ko-mecab", True),
        ("kor_Hang", "Hang", "ko-mecab", True),
        ("th tha", "Thai", "char", False),
        ("my mya bur", "Mymr", "char", False),
        ("es spa es-419 en_US eng de ger deu zh-Latn vi", "Latn", "13a", True),
        ("ar ara pa-PK", "Arab", "13a", True),
        ("hi hin", "Deva", "13a", True),
    ],
)
def test_a_code_of_bcp_47_or_iso_639_has_the_script_that_decides(codes, wanted, tokenizer, spaces):
    for code in codes.split():
        assert (script(code), bleu_tokenizer(code), has_spaces(code)) == (wanted, tokenizer, spaces), code


def test_without_a_language_words_are_separated_by_spaces():
    assert (script(None), bleu_tokenizer(None), has_spaces(None)) == (None, "13a", True)


@pytest.mark.parametrize(
    ("code", "similar"),
    [
        ("jp", "jpn"),
        ("cz", "cze"),
        ("esp", "es"),
        ("german", "ger"),
        ("chinese", "chi"),
        ("gr", "gre"),
        ("zh-Foo1", "zh"),
    ],
)
def test_an_unknown_language_is_an_error_that_suggests(code, similar):
    with pytest.raises(ValueError, match=rf"--target-language: .* received '{code}'\. Did you mean .*\b{similar}\b"):
        CorpusOptions(target_language=code)


@pytest.mark.parametrize("code", ["", "xx", "und", "-", "Chinese (simplified)", "😀"])
def test_what_is_no_language_is_refused(code):
    with pytest.raises(ValueError, match="language: expected a language code"):
        script(code)


def test_the_script_of_a_text_tells_whether_its_words_are_separated():
    assert all(map(is_spaceless, "々〆〇我語りょうラーﾗกລខမབ"))
    assert not any(map(is_spaceless, "añжωक한1 。▁฿・゛"))
