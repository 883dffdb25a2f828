"""Batches for the tests of training."""

import pytest
from bigram import random_batches


@pytest.fixture(scope="session")
def batches():
    return random_batches()
