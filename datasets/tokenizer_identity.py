"""Which tokenizer a cohort was built for."""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def tokenizer_identity(tokenizer: "PreTrainedTokenizerBase") -> dict[str, str]:
    """Return a tokenizer's name and the SHA-256 of its vocabulary and chat template.

    The name of a local copy is its folder's, for the whole path says only where this machine keeps it.
    """
    name = str(tokenizer.name_or_path)
    content = {
        "vocabulary": tokenizer.get_vocab(),
        "chat_template": getattr(tokenizer, "chat_template", None),
    }
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode("ascii")).hexdigest()
    return {"name": Path(name).name if Path(name).exists() else name, "fingerprint": digest}
