"""Numerical controls: repeated builds, executors against each other, and the residual bound, on Erasing-NIAH cases."""
