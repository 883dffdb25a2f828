"""Batches that the tests of training share."""

import pytest
from bigram import random_batches


@pytest.fixture(scope="session")
def batches():
    return random_batches()
