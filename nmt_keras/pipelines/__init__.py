"""Apache Beam pipelines for corpora that are too large for one machine.

    translation   bulk translation with an exported model
    preparing     text to shards of token ids, for training

Install with ``pip install "nmt-keras-attention[beam]"``, then run ``python -m nmt_keras.pipelines --help``. If one
server is enough, use ``python -m nmt_keras_serve.bulk``, which keeps the order of the lines.
"""
