"""Figures of what a model attends to, of how it learnt and of how well it does: arrays in, matplotlib figures out.

Figures are made without pyplot, so nothing global is opened or leaked: they work headless and in a server.
A notebook shows them as a cell's last value once ``%matplotlib inline`` has run.
"""

from nmt_keras.plotting.curves import compare_training, training_curves
from nmt_keras.plotting.heatmaps import Panel, alignment_grid, alignment_heatmap
from nmt_keras.plotting.saving import save_figure
from nmt_keras.plotting.scores import bleu_by_length, score_intervals

__all__ = [
    "Panel",
    "alignment_grid",
    "alignment_heatmap",
    "bleu_by_length",
    "compare_training",
    "save_figure",
    "score_intervals",
    "training_curves",
]
