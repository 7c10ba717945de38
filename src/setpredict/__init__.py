"""setpredict: predict sets, with Deep Set Prediction Networks at the heart."""

from setpredict.sets import Prediction, Sets

__all__ = ["Prediction", "Sets"]
