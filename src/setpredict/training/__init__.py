"""The outer loop and its parts: steps, evaluation, checkpoints, logs. It knows nothing about the folder of a run."""
