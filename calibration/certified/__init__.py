"""Selection of a reuse policy with a bound on its risk, beside the empirical target of paper section 3.4.

`learn_then_test` and `e_values` bound, with confidence ``1 - delta``, the share of returned responses that are
invalid; `risk_control` bounds the mean of invalid returns per request. `advice` tells beforehand what a number of
clusters can show.
"""

from cachemend.calibration.certified.advice import Advice, advise
from cachemend.calibration.certified.certification import Certification
from cachemend.calibration.certified.e_values import bet_on_dev, certify_by_e_values
from cachemend.calibration.certified.learn_then_test import certify_by_binomial_tests
from cachemend.calibration.certified.ordering import order_on_dev
from cachemend.calibration.certified.risk_control import RiskControl, control_risk

__all__ = [
    "Advice",
    "Certification",
    "RiskControl",
    "advise",
    "bet_on_dev",
    "certify_by_binomial_tests",
    "certify_by_e_values",
    "control_risk",
    "order_on_dev",
]
