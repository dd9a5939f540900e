"""Which quantised weights are accepted."""

from typing import Any

from torch import nn

from cachemend.repair_core.errors import Refused

# Run against the interval-wise executor by the tests where the package is installed.
ACCEPTED = ("bitsandbytes_4bit", "quanto", "torchao")


def check_quantization(model: nn.Module) -> None:
    """Refuse quantised weights that repair was not run with.

    A quantised linear layer is an ordinary module to a refresh as long as each row is computed on its own.
    Activations quantised with a scale taken over all rows make a row depend on which rows are computed beside it.

    Raises:
        Refused: names the method.
    """
    method = quantization_method(model)
    if method is not None and method not in ACCEPTED:
        raise Refused(f"quantized weights of method {method!r} were not checked; accepted: {', '.join(ACCEPTED)}")
    dynamic = next((n for n, m in model.named_modules() if "quantized.dynamic" in type(m).__module__), None)
    if dynamic is not None:
        raise Refused(
            f"layer {dynamic} quantizes its input with one scale for all rows, so a row depends on the rows "
            "computed beside it; use weight-only quantization"
        )


def quantization_method(model: nn.Module) -> str | None:
    """The name of the quantisation a model's configuration states, or None."""
    config: Any = getattr(model, "config", None)
    stated = getattr(config, "quantization_config", None)
    if not stated:
        return None
    read = stated.get if isinstance(stated, dict) else lambda key: getattr(stated, key, None)
    method = str(getattr(read("quant_method"), "value", read("quant_method")))
    if method == "bitsandbytes":
        return "bitsandbytes_8bit" if read("load_in_8bit") else "bitsandbytes_4bit"
    return method
