"""`editcritic judge` on a real endpoint: `transformers serve` with a tiny judge whose answers are known.

The judge was taught to say yes to every question of yes or no, and to grade with 6, 7 or the word `no`. What the
commands report is compared with what the server said, which a proxy records.
"""

import base64
import io
import json
import math
import random
import re
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, variance
from typing import Any

import numpy as np
import PIL.Image
import pytest
from transformers.decision import DecisionConfig

from editcritic.benchmarks.human_eval.judge_faults import measure_faults
from editcritic.benchmarks.human_eval.judge_faults.runner import FAULTS
from editcritic.benchmarks.sceneedit.cases import cases
from editcritic.reward import Reward
from editcritic.reward.queries import Grade, Judge, Reply
from tests.reward.experts.http_server import Answer, Loopback, ReceivedRequest, serving
from tests.reward.experts.taught_judge import teach
from tests.reward.experts.tiny_vlms import tiny_llava
from tests.reward.experts.transformers_server import serving_models
from tests.reward.fakes import Fake

pytestmark = pytest.mark.slow

SUITE = "sceneedit?prompts=9"
ITEMS = 9
GRADES = {"6": 0.47, "7": 0.45, "no": 0.08}
"""How often it gives each reply to a question for a grade. The word is no grade."""


def taught_answer(query: Judge, rng: random.Random) -> str:
    if isinstance(query.form, Grade):
        return rng.choices(list(GRADES), list(GRADES.values()))[0]
    return "yes"


def questions_of(grade: str) -> list[Judge]:
    """What a measurement asks about some samples without comparing edits, and a reward of one question."""
    samples = [case.sample for case in cases(18, turns=1, seed=1)]
    asked: list[Judge] = []

    def record(query: Judge) -> Reply:
        asked.append(query)
        return Reply("6" if isinstance(query.form, Grade) else "yes")

    measure_faults(Fake(record), samples, faults=set(FAULTS) - {"position"})
    Reward.of(grade, {"judge": Fake(record)})(samples)
    return asked


@dataclass(frozen=True)
class Served:
    """server: which records. taught, untaught: folders of models. grade: a reward that samples a grade."""

    server: Loopback
    taught: Path
    untaught: Path
    grade: str

    def judge(self, model: Path, **options: object) -> str:
        """What `--experts` takes."""
        settings = "".join(f"&{name}={value}" for name, value in options.items())
        return f"cpu 'judge=openai:{self.server.url}?model={model}&retries=0&concurrency=1{settings}'"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    taught, untaught = folder / "taught", folder / "untaught"
    for model in (taught, untaught):
        tiny_llava(model, width=64)
    words = folder / "words"  # short ones: tiny models have a token for nearly every letter
    words.mkdir()
    (words / "quality.txt").write_text("How good is this picture? Answer with an integer from 0 to 10. {rubric}")
    (words / "rubric_quality.txt").write_text("10 is the best.")
    grade = f"complex-edit-pq?prompts={words}"
    teach(taught, questions_of(grade), taught_answer)
    # Its vocabulary has no token for "Yes": a decision config names others, as it does for models of that kind.
    DecisionConfig(labels={"noul": ["Y", "N"]}).save_pretrained(taught)
    with serving_models(folder / "log") as url:

        def forward(request: ReceivedRequest, number: int) -> Answer:
            body = None if request.body is None else json.dumps(request.body).encode()
            address = url.removesuffix("/v1") + request.path
            asked = urllib.request.Request(address, body, {"Content-Type": "application/json"})
            try:
                with urllib.request.urlopen(asked, timeout=60) as response:
                    answer = Answer(json.load(response), response.status)
            except urllib.error.HTTPError as error:
                answer = Answer(error.read(), error.code)
            replies.append((request.body, answer.body))
            return answer

        with serving(forward) as server:
            yield Served(server, taught, untaught, grade)


replies: list[tuple[Any, Any]] = []  # requests to the server, and its responses


@pytest.fixture(autouse=True)
def nothing_recorded() -> None:
    replies.clear()


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from typer.testing import CliRunner

    from editcritic.cli.app import app

    folder = tmp_path_factory.mktemp("made")
    made = CliRunner().invoke(app, ["bench", "generate", SUITE, "--pipeline", "sceneedit", "-o", str(folder)])
    assert made.exit_code == 0, made.output
    return folder


def texts_by_picture() -> Mapping[bytes, Mapping[int, list[str]]]:
    """Pixels of the edited picture -> seed -> what the server said, of all requests for a sample."""
    found: dict[bytes, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for body, response in replies:
        if "seed" not in body:
            continue
        *_, part = [part for part in body["messages"][0]["content"] if part["type"] == "image_url"]
        data = base64.b64decode(part["image_url"]["url"].partition(",")[2])
        text = response["choices"][0]["message"]["content"]
        found[pixels(io.BytesIO(data))][body["seed"]].append(text)
    return found


def pixels(file: Any) -> bytes:
    with PIL.Image.open(file) as image:
        return image.convert("RGB").tobytes()


def test_variance_is_that_of_the_replies_and_no_reply_that_is_no_grade_counts(served, outputs, editcritic):
    result = editcritic(
        *("judge", "variance", SUITE, "--outputs", outputs, "--metric", f"{served.grade}&max_replacements=0"),
        *("-k", "1,2", "--experts", served.judge(served.taught), "--json"),
    )
    assert result.exit_code == 1, result.output  # some could not be measured
    document = json.loads(result.stdout)
    measured, failed = document["measurements"], document["failed"]
    texts = texts_by_picture()
    assert len(texts) == ITEMS == len(measured) + len(failed)
    by_name = {path.stem: texts[pixels(path)] for path in outputs.glob("*.png")}
    for name, by_seed in by_name.items():
        assert len(by_seed) == 8, "each measurement has a seed of its own"
        for tries in by_seed.values():
            assert len(tries) == 1 + (not tries[0].isdigit()), "an unreadable reply is asked for once more"
        grades = [int(tries[-1]) for tries in by_seed.values() if tries[-1].isdigit()]
        if len(grades) == 8:
            assert sorted(measured[name]) == sorted(grades)
        else:
            assert re.search(r"expected an integer from 0 to 10, got '\w", failed[name])
    assert measured
    assert failed
    rows = [np.array(row) for row in measured.values()]
    squares = sum(float(((row - row.mean()) ** 2).sum()) for row in rows)
    assert document["measurement_std"] == pytest.approx(math.sqrt(squares / (7 * len(rows))))
    assert 0.2 < document["measurement_std"] < 0.6  # 0.5 for two grades that are as likely


def test_a_judge_that_answers_nothing_readable_is_not_measured(served, outputs, editcritic):
    result = editcritic(
        *("judge", "variance", SUITE, "--outputs", outputs, "--metric", "following", "--num-samples", 2),
        *("-k", "1", "--experts", served.judge(served.untaught)),
    )
    assert result.exit_code == 2
    assert "no sample could be measured 4 times" in result.stderr
    assert "expected yes or no" in result.stderr


def test_draws_of_a_greedy_checkpoint_are_all_alike_unless_it_is_told_to_sample(served, outputs, editcritic):
    """`transformers serve` samples only where the checkpoint's generation_config.json does, whatever the request's
    temperature."""
    config = served.taught / "generation_config.json"
    greedy = served.taught.parent / "greedy"
    greedy.mkdir()
    for path in served.taught.iterdir():
        (greedy / path.name).write_bytes(path.read_bytes())
    settings = json.loads(config.read_text())
    assert settings.pop("do_sample")
    (greedy / config.name).write_text(json.dumps(settings))
    spread = []
    sampling = json.dumps({**settings, "do_sample": True}, separators=(",", ":"))
    told = json.dumps({"generation_config": sampling}, separators=(",", ":"))
    for extra in ({}, {"extra": told}):
        experts = served.judge(greedy, **extra)
        result = editcritic(
            *("judge", "variance", SUITE, "--outputs", outputs, "--metric", served.grade, "-k", "1"),
            *("--num-samples", 4, "--experts", experts, "--json"),
        )
        assert result.exit_code == 0, result.output
        spread.append(json.loads(result.stdout)["measurement_std"])
    assert spread[0] == 0
    assert spread[1] > 0.2


def said() -> list[str]:
    return [str(response["choices"][0]["message"]["content"]) for _, response in replies]


def findings(document: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for finding in document["findings"]:
        found[finding["fault"]].append(finding)
    return found


def readings() -> list[tuple[str, bool]]:
    """What the server said, and whether that answers the question. Which of two edits is better, it was not taught."""
    found = []
    for text, (body, _) in zip(said(), replies, strict=True):
        pictures = sum(part["type"] == "image_url" for part in body["messages"][0]["content"])
        is_grade = body["max_tokens"] == Grade().max_tokens
        found.append((text, pictures == 2 and (text.isdigit() if is_grade else text in ("yes", "no"))))
    return found


def test_the_audit_finds_the_faults_that_the_judge_was_taught_and_what_was_asked(served, outputs, tmp_path, editcritic):
    words = ("judge", "faults", SUITE, "--outputs", outputs, "--experts", served.judge(served.taught))
    options = ("--cache", tmp_path / "answers.sqlite", "--json")
    result = editcritic(*words, *options, "-o", tmp_path / "faults.md", code=1)
    document = json.loads(result.stdout)
    found = findings(document)

    (yes_bias,) = found["yes-bias"]
    assert (yes_bias["value"], yes_bias["found"]) == (1.0, True)
    assert yes_bias["missing"] <= 1
    for fault in ("order", "wording", "size", "jpeg", "draws", "picture-words", "instruction-words"):
        for finding in found[fault]:
            assert (finding["value"], finding["found"]) == (0.0, False), finding
            assert finding["missing"] <= 1, finding  # it may take an unknown question for one of a grade
            assert finding["samples"] + finding["missing"] == ITEMS

    (position,) = found["position"]
    assert (position["value"], position["found"], position["missing"]) == (None, None, ITEMS)
    assert "expected one of first, second, same" in position["reason"]
    assert all(finding["value"] is None for finding in found["readings"])
    assert {finding["reason"] for finding in found["readings"]} == {"the judge gives no probabilities"}

    (draws,) = found["grade-draws"]
    rows = [
        [int(texts[-1]) for texts in by_seed.values()]
        for by_seed in texts_by_picture().values()
        if all(texts[-1].isdigit() for texts in by_seed.values())
    ]
    assert (draws["samples"], draws["missing"]) == (len(rows), ITEMS - len(rows))
    if rows:
        assert draws["value"] == pytest.approx(math.sqrt(fmean(variance(row) for row in rows)) / 10)

    calls = document["costs"].values()
    assert sum(cost["tokens"] for cost in calls) == sum(response["usage"]["total_tokens"] for _, response in replies)
    unreadable = [text for text, readable in readings() if not readable]
    assert unreadable
    # An unreadable reply is asked for once more, and this server says the same to the same seed.
    assert len(replies) == sum(cost["calls"] for cost in calls) + len(unreadable) / 2
    assert "| yes-bias |" in (tmp_path / "faults.md").read_text()

    replies.clear()
    again = json.loads(editcritic(*words, *options).stdout)
    assert again["findings"] == document["findings"]
    assert [text for text, _ in readings()] == unreadable, "only what had failed is asked again"


def test_the_same_model_gives_probabilities_where_the_server_does(served, outputs, editcritic):
    experts = f"cpu judge=systemone?model={served.taught}&base_url={served.server.url}"
    result = editcritic(
        *("judge", "faults", SUITE, "--outputs", outputs, "--experts", experts, "--limit", 4, "--json"),
        *("--fault", "position", "--fault", "draws", "--fault", "readings"),
    )
    assert result.exit_code == 0, result.output
    found = findings(json.loads(result.stdout))
    assert all(finding["missing"] == 0 for row in found.values() for finding in row)
    assert found["draws"][0]["value"] == 0
    assert found["readings"][0]["value"] == 0  # the word is the most probable option
    assert found["readings"][1]["value"] is not None
