"""Apache Beam pipelines, for corpora that take one machine too long.

    translation   bulk translation around an exported model
    preparing     text to shards of token ids, for training

Install with ``pip install "nmt-keras-attention[beam]"``, then run ``python -m nmt_keras.pipelines --help``. To
translate a file that one machine and one server can manage, use ``python -m serve.bulk``, which keeps the order of the
lines.
"""
