"""What scikit-learn expects of an estimator, without importing it: parameters, tags, feature names, and its exceptions if it is loaded."""

from __future__ import annotations

import inspect
import sys
import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from craton.ml.inputs import Features, open_features

__all__ = ["Estimator", "NotFitted", "check_random_state", "check_weights"]


class NotFitted(ValueError, AttributeError):
    """An estimator is used before it was fitted. If scikit-learn is loaded, its NotFittedError is raised instead."""


class Estimator:
    """The parameters of an estimator are the keywords of its constructor, which only keeps them."""

    n_features_in_: int

    @classmethod
    def _parameters(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters, by name; `deep` makes no difference, since none is an estimator."""
        return {name: getattr(self, name) for name in self._parameters()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters, and return the estimator.

        Raises
        ------
        ValueError
            If there is no such parameter.
        """
        known = self._parameters()
        for name, value in params.items():
            if name not in known:
                raise ValueError(f"Invalid parameter {name!r} for estimator {self}. Valid parameters are: {known!r}.")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if value is not defaults[name].default
            and not (isinstance(value, str | int | float) and value == defaults[name].default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose what :meth:`transform` returns: ``"default"`` arrays, or frames of ``"pandas"`` or ``"polars"``.

        Raises
        ------
        ValueError
            If it is anything else.
        """
        if transform is not None:
            if transform not in ("default", "pandas", "polars"):
                raise ValueError(f"output config must be in ['default', 'pandas', 'polars'], got {transform}")
            self._sklearn_output_config = {"transform": transform}  # scikit-learn copies it to clones
        return self

    def _output(self, values: NDArray[Any], data: Any, names: NDArray[Any]) -> Any:
        """What :meth:`transform` returns for an array."""
        kind = getattr(self, "_sklearn_output_config", {}).get("transform", "default")
        if kind == "pandas":
            import pandas

            index = data.index if isinstance(data, pandas.DataFrame) else None
            return pandas.DataFrame(values, columns=names, index=index)
        if kind == "polars":
            import polars

            return polars.DataFrame(values, schema=names.tolist())
        return values

    def __sklearn_tags__(self) -> Any:
        """The tags that scikit-learn (1.6 or newer) asks estimators for."""
        from sklearn.utils import Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type="clusterer",
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=["float64", "float32"]),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "cluster_centers_")

    def _check_fitted(self) -> None:
        if self.__sklearn_is_fitted__():
            return
        loaded = sys.modules.get("sklearn.exceptions")
        error: type[Exception] = NotFitted if loaded is None else loaded.NotFittedError
        name = type(self).__name__
        raise error(
            f"This {name} instance is not fitted yet. Call 'fit' with appropriate arguments before using this estimator."
        )

    def _learn_features(self, features: Features) -> None:
        self.n_features_in_ = features.dimensions
        if features.names is not None:
            self.feature_names_in_ = np.asarray(features.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _open_like_fitted(self, data: Any) -> Features:
        """Open samples that must have the features that the estimator was fitted with."""
        self._check_fitted()
        features, name = open_features(data), type(self).__name__
        known = getattr(self, "feature_names_in_", None)
        if known is not None and features.names is None:
            warnings.warn(
                f"X does not have valid feature names, but {name} was fitted with feature names",
                UserWarning,
                stacklevel=3,
            )
        elif known is None and features.names is not None:
            warnings.warn(
                f"X has feature names, but {name} was fitted without feature names", UserWarning, stacklevel=3
            )
        elif known is not None and features.names != list(known):
            unseen = sorted(set(features.names or ()) - set(known))
            missing = sorted(set(known) - set(features.names or ()))
            raise ValueError(
                "The feature names should match those that were passed during fit.\n"
                + (f"Feature names unseen at fit time: {unseen}\n" if unseen else "")
                + (f"Feature names seen at fit time, yet now missing: {missing}\n" if missing else "")
                + ("" if unseen or missing else "Feature names must be in the same order as they were in fit.\n")
            )
        if features.dimensions != self.n_features_in_:
            raise ValueError(
                f"X has {features.dimensions} features, but {name} is expecting {self.n_features_in_} features as input."
            )
        return features


def check_random_state(seed: Any) -> np.random.RandomState:
    """The generator of a `random_state`: NumPy's global one for None, a new one for an integer, or the given one.

    Raises
    ------
    ValueError
        If it is anything else.
    """
    if seed is None or seed is np.random:
        return np.random.mtrand._rand  # type: ignore[attr-defined,no-any-return]
    if isinstance(seed, int | np.integer):
        return np.random.RandomState(int(seed))
    if isinstance(seed, np.random.RandomState):
        return seed
    raise ValueError(f"{seed!r} cannot be used to seed a numpy.random.RandomState instance")


def check_weights(weights: Any, rows: int) -> NDArray[np.float64] | None:
    """Sample weights as an array; None if all points have the weight 1.

    Raises
    ------
    ValueError
        If there is not one finite weight for each sample, or all are zero.
    """
    if weights is None:
        return None
    if isinstance(weights, int | float | np.number):
        found = np.full(rows, float(weights))
    else:
        found = np.ascontiguousarray(weights, dtype=np.float64)
    if found.ndim != 1:
        raise ValueError("Sample weights must be 1D array or scalar")
    if len(found) != rows:
        raise ValueError(f"sample_weight.shape == {found.shape}, expected ({rows},)!")
    if not np.isfinite(found).all():
        raise ValueError("Input sample_weight contains NaN or infinity.")
    if (found < 0).any():
        raise ValueError("Negative values in data passed to `sample_weight`")
    if not found.any():
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return found
