"""Matthews correlation, the score of every table."""

import math

import torch
from torch import Tensor


def confusion(prediction: Tensor, target: Tensor, num_classes: int) -> Tensor:
    """Count the pairs of true and predicted class, [num_classes (true), num_classes (predicted)].

    Example:
        >>> confusion(torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1]), 2).tolist()
        [[1, 1], [0, 1]]
    """
    return torch.bincount(target * num_classes + prediction, minlength=num_classes**2).view(num_classes, num_classes)


def mcc(table: Tensor) -> float:
    """Matthews correlation coefficient of a confusion table, for any number of classes.

    0 when all predictions or all targets are of one class, as in scikit-learn.

    Example:
        >>> mcc(torch.tensor([[5, 0], [0, 3]])), mcc(torch.tensor([[5, 0], [3, 0]]))
        (1.0, 0.0)
    """
    counts = table.double()
    true, predicted, total = counts.sum(1), counts.sum(0), counts.sum()
    covariance = counts.trace() * total - true @ predicted
    spread = (total**2 - true @ true) * (total**2 - predicted @ predicted)
    return float(covariance) / math.sqrt(float(spread)) if spread > 0 else 0.0
