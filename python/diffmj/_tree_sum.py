"""Sums over a batch in an order that depends on nothing but its size.

The sum is a binary tree over the numbers of the rollouts: a node of level k is the sum of 2^k
neighbours, that of its left half plus that of its right half. So parts of a batch that are whole
nodes can be summed anywhere, and the total has the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt


def tree_sum(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The sum over the first dimension, which is not empty."""
    while len(x) > 1:
        even = len(x) - len(x) % 2
        pairs = x[0:even:2] + x[1:even:2]
        x = pairs if even == len(x) else np.concatenate([pairs, x[-1:]])
    total: npt.NDArray[Any] = x[0]
    return total


class TreeSum:
    """The same sum of arrays by name, from sums of nodes that come in any order."""

    def __init__(self, size: int):
        """size: of the batch."""
        self._size = size
        self._nodes: dict[tuple[int, int], dict[str, Any]] = {}
        self.total: dict[str, Any] | None = None  # until all nodes came

    def add(self, begin: int, end: int, sums: Mapping[str, Any]) -> None:
        """The sums of rollouts begin to end - 1, a node: `begin` is a multiple of a power of two
        that is not less than their number, and that number is the power, unless the batch ends.
        """
        level = (end - begin - 1).bit_length()
        node, here = begin >> level, dict(sums)
        while node > 0 or 1 << level < self._size:
            if node % 2 == 1 or (node + 1) << level < self._size:  # there is one beside it
                other = self._nodes.pop((level, node ^ 1), None)
                if other is None:
                    self._nodes[level, node] = here
                    return
                here = {name: x + other[name] for name, x in here.items()}
            level, node = level + 1, node // 2
        self.total = here
