"""A tiny random Llama with a tokenizer and chat template of its own, saved as a checkpoint folder."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from cachemend.datasets.niah_filler import filler_sentences

from support.tiny_models import COMMON

VOCABULARY = 580
CHAT = (
    "<s>{% for m in messages %}<u>{{ m['content'] | trim }}</u>\n{% endfor %}"
    "{% if add_generation_prompt %}<a>{% endif %}"
)
SPECIALS = ["<s>", "<u>", "</u>", "<a>"]

DEADLY_CODE = '''
import os
from transformers import LlamaForCausalLM


class DeadlyLlama(LlamaForCausalLM):
    """Ends its process at the sight of one token."""

    def __init__(self, config):
        super().__init__(config)
        self.model.embed_tokens.register_forward_pre_hook(self._look)

    def _look(self, module, args):
        if (args[0] == self.config.deadly_id).any():
            os._exit(9)
'''


def save_tiny(
    folder: Path,
    *,
    seed: int = 0,
    context: int = 1024,
    unknown_word: str | None = None,
    deadly_word: str | None = None,
    **options: Any,
) -> Path:
    """Save a checkpoint that loads like any other and runs a case in a fraction of a second.

    Args:
        folder: where to.
        seed: other seeds give other weights.
        context: the longest context its configuration allows.
        unknown_word: a word whose token id lies beyond the model's vocabulary.
        deadly_word: a word at whose token the model ends its process; the folder then needs trust_remote_code.
        options: more keys of its configuration.
    """
    words = [word for word in (unknown_word, deadly_word) if word]
    tokenizer = _tokenizer(words)
    known = len(tokenizer) - (1 if unknown_word else 0)
    sizes = {**COMMON, "vocab_size": known, "max_position_embeddings": context, "num_hidden_layers": 2}
    config = LlamaConfig(**{**sizes, **options})
    if deadly_word:
        config.deadly_id = tokenizer.convert_tokens_to_ids(deadly_word)
    torch.manual_seed(seed)
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if deadly_word:
        (folder / "deadly.py").write_text(DEADLY_CODE, encoding="utf-8")
        path = folder / "config.json"
        stated = json.loads(path.read_text(encoding="utf-8"))
        stated["auto_map"] = {"AutoModelForCausalLM": "deadly.DeadlyLlama"}
        path.write_text(json.dumps(stated), encoding="utf-8")
    return folder


def _tokenizer(words: Sequence[str]) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    digits = pre_tokenizers.Digits(individual_digits=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIALS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    sentences = [*filler_sentences(1, 200), "The access code for amber falcon is 123456.", "What is mentioned?"]
    tokenizer.train_from_iterator(sentences, trainer)
    tokenizer.add_tokens([AddedToken(word, normalized=False) for word in words])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</u>", chat_template=CHAT)
