"""``nmt check``: causes of a bad model, with evidence and the next command to run.

findings     record of a finding, table of all limits, reports
forms        forms of lines: damaged encoding, tokenisation, case
association  alignment of lines by word translations that are learnt from the lines
language     swapped sides and other languages
corpus       checks of a corpus
outputs      checks of translations
run          checks of a run
"""
