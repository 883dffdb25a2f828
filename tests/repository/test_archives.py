"""The archives of results: their figures follow from the stored translations and links."""

import pytest

from benchmarks.archives import RESULTS, add_files, archived, compared, files_of, held_out, main, not_stored, rounded


@pytest.mark.parametrize("group", archived(), ids=lambda group: group.name)
def test_the_figures_of_a_group_follow_from_its_translations_and_links(group):
    files = files_of(group)
    found = list(compared(files, held_out(files, None)))
    assert [name for name, stored, computed in found if rounded(stored) != rounded(computed)] == []
    assert len(found) >= {"ladder": 48, "sample": 32}.get(group.name, 0)


def test_added_files_replace_those_of_the_same_name_and_equal_files_give_equal_bytes(tmp_path):
    group, folder = tmp_path / "group", tmp_path / "new"
    add_files({"table.json": "{}", "a-1.txt": "uno\u2028\r\n", "b-1.txt": "dos\n"}, group)
    first = group.with_suffix(".tar.xz").read_bytes()
    add_files({"b-1.txt": "tres\n"}, group)
    assert files_of(group) == {"table.json": "{}", "a-1.txt": "uno\u2028\r\n", "b-1.txt": "tres\n"}
    assert group.with_suffix(".json").read_text() == "{}"
    folder.mkdir()
    (folder / "b-1.txt").write_bytes(b"dos\n")
    add_files(files_of(folder), group)
    assert group.with_suffix(".tar.xz").read_bytes() == first


def test_a_figure_that_differs_from_the_translations_is_an_error(monkeypatch, tmp_path, capsys):
    files = dict(files_of(RESULTS / "sample"))
    files["luong-dot-sample-1.txt"] = files["luong-dot-sample-1.txt"].replace("the", "a")
    add_files(files, tmp_path / "sample")
    monkeypatch.setattr("benchmarks.archives.RESULTS", tmp_path)
    with pytest.raises(SystemExit, match="figures differ"):
        main()
    printed = capsys.readouterr().out
    assert "luong-dot-sample-1.json, bleu: stored" in printed
    assert "sample: no links of 8 runs, whose figures are not computed: luong-concat-sample-1.json, " in printed
    assert not_stored({"a-1.json": "{}"}) == {"translations": ["a-1.json"], "links": []}
