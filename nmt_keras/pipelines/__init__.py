"""Apache Beam pipelines, for corpora that one machine takes too long for.

    translation   bulk translation around an exported model
    preparing     text to shards of token ids, for training

``pip install "nmt-keras-attention[beam]"``, then ``python -m nmt_keras.pipelines --help``. A file that one machine and
one server can manage is easier translated by ``python -m serve.bulk``, which keeps the order of the lines.
"""
