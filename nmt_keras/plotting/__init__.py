"""Plots of attention, training curves and scores. Functions take arrays and return matplotlib figures.

Figures are created without pyplot, so they need no display and leave no global state. After ``%matplotlib inline``, a
notebook displays a figure that is the last expression of a cell.
"""

from nmt_keras.plotting.curves import compare_training, training_curves
from nmt_keras.plotting.heatmaps import Panel, alignment_grid, alignment_heatmap
from nmt_keras.plotting.saving import save_figure
from nmt_keras.plotting.scores import bars, bleu_by_length, score_intervals

__all__ = [
    "Panel",
    "alignment_grid",
    "alignment_heatmap",
    "bars",
    "bleu_by_length",
    "compare_training",
    "save_figure",
    "score_intervals",
    "training_curves",
]
