"""The public names of ``nmt_keras``."""

import subprocess
import sys

import keras
import pytest

import nmt_keras


def test_the_package_lists_the_names_that_it_offers():
    assert set(nmt_keras.__all__) <= set(dir(nmt_keras))
    assert all(hasattr(nmt_keras, name) for name in nmt_keras.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="Transformer"):
        _ = nmt_keras.Transformer


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # of Keras
def test_a_process_that_only_imports_the_package_loads_a_saved_model(tmp_path):
    """Also if a library has asked where Keras is before it is imported."""
    cell = nmt_keras.GRUCell(3)
    keras.Sequential([keras.Input((None, 2)), keras.layers.RNN(cell)]).save(tmp_path / "m.keras")
    asks = (
        "import sys, importlib.util, nmt_keras; assert importlib.util.find_spec('keras') and 'keras' not in sys.modules"
    )
    loads = "import keras; keras.saving.load_model(sys.argv[1])"
    subprocess.run([sys.executable, "-c", f"{asks}; {loads}", tmp_path / "m.keras"], check=True)
