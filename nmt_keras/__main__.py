"""``python -m nmt_keras``: see :mod:`nmt_keras.cli`."""

from nmt_keras.cli import main

main()
