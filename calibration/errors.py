"""The error of data that cannot be calibrated on."""


class CalibrationError(ValueError):
    """Bad input: one line that names the input, the value given and what would be right."""
