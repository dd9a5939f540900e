"""Tokenizers the cohort tests share: the embedded model's, and tiny ones trained here."""

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from cachemend.datasets.niah_filler import filler_sentences
from cachemend.repair_core.models import load_tokenizer

CHAT = (
    "<s>{% if strftime_now is defined %}Today is {{ strftime_now('%d %b %Y') }}. {% endif %}"
    "{% for m in messages %}<u>{{ m['content'] | trim }}</u>\n{% endfor %}"
    "{% if add_generation_prompt %}<a>{% if enable_thinking is defined and enable_thinking is false %}"
    "<think></think>{% endif %}{% endif %}"
)
SPECIALS = ["<s>", "<u>", "</u>", "<a>"]

WORDS = pre_tokenizers.Sequence(
    [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
)
# As Qwen and Llama 3 split: a full stop and the line breaks after it are one piece, digits go by threes.
STOP_AND_BREAKS = pre_tokenizers.Sequence(
    [
        pre_tokenizers.Split(
            Regex(r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"), "isolated"
        ),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
)


def train(extra: list[str] | None = None, words: pre_tokenizers.PreTokenizer = WORDS) -> Tokenizer:
    """A byte-level BPE of a few hundred merges; `extra` are added tokens that may span words."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = words
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        special_tokens=SPECIALS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    sentences = [
        *filler_sentences(1, 200),
        "The end.\n\n" * 20,
        "The access code for amber falcon is 123456.",
        "What is mentioned?",
    ]
    tokenizer.train_from_iterator(sentences, trainer)
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in extra or []])
    return tokenizer


def wrap(tokenizer: Tokenizer, chat_template: str | None) -> PreTrainedTokenizerBase:
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", chat_template=chat_template)


@pytest.fixture(scope="session")
def smol() -> PreTrainedTokenizerBase:
    return load_tokenizer("smollm2-135m")


@pytest.fixture(scope="session")
def tiny_chat() -> PreTrainedTokenizerBase:
    return wrap(train(), CHAT)


@pytest.fixture(scope="session")
def tiny_breaks() -> PreTrainedTokenizerBase:
    """A tokenizer that joins the end of a paragraph with the blank line after it."""
    tokenizer = wrap(train(words=STOP_AND_BREAKS), CHAT)
    assert len(tokenizer.tokenize(".\n\n")) == 1
    return tokenizer


@pytest.fixture(scope="session")
def tiny_plain() -> PreTrainedTokenizerBase:
    """No chat template; a beginning-of-sequence token before every text."""
    tokenizer = train()
    begin = tokenizer.token_to_id("<s>")
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", begin)])
    return wrap(tokenizer, None)


@pytest.fixture(scope="session")
def greedy_stop() -> PreTrainedTokenizerBase:
    """A tokenizer that joins a full stop with a following " A", so some deletions split a token."""
    return wrap(train(extra=[". A"]), CHAT)


@pytest.fixture(scope="session")
def joins_the() -> PreTrainedTokenizerBase:
    """A tokenizer that joins a full stop with a following " The": no fact can be cut out cleanly."""
    return wrap(train(extra=[". The"]), CHAT)
