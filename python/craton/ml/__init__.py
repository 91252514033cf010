"""Machine learning over data larger than memory, with the interface of scikit-learn.

Estimators read arrays, tables, and sets of the store. Data that is not in memory is streamed into a locality set, which paging keeps
partly on disk.
"""

from __future__ import annotations

from craton.ml.kmeans import KMeans
from craton.ml.mini_batches import MiniBatchKMeans

__all__ = ["KMeans", "MiniBatchKMeans"]
