"""The choice of XLA."""

from dataclasses import replace

import pytest
from tiny import TINY_RECIPE

from nmt_keras.training.execution import build_for_training, uses_xla


@pytest.fixture
def chosen(monkeypatch):
    """Returns a function from fields of ``TrainConfig`` and a number of GPUs to the choice for the tiny recipe."""

    def choose(gpus=0, **fields):
        monkeypatch.setattr("tensorflow.config.list_logical_devices", lambda kind: [kind] * gpus)
        recipe = replace(TINY_RECIPE, train=replace(TINY_RECIPE.train, **fields))
        return uses_xla(recipe.train, build_for_training(recipe, 11, 13))

    return choose


@pytest.mark.parametrize(
    ("asked", "gpus", "wanted"),
    [(None, 0, True), (None, 1, True), (None, 8, False), (True, 8, True), (False, 0, False), (False, 1, False)],
)
def test_xla_is_chosen_everywhere_but_on_several_gpus(chosen, asked, gpus, wanted):
    assert chosen(gpus, xla=asked) is wanted


@pytest.mark.parametrize(("asked", "gpus"), [(False, 0), (None, 1), (True, 1)])
def test_rounded_products_need_xla_on_a_cpu(chosen, asked, gpus):
    with pytest.raises(ValueError, match=r"TrainConfig\.precision: .*mixed_bfloat16.*bfloat16-products"):
        chosen(gpus, xla=asked, precision="bfloat16-products")
