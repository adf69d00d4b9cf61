"""GEdit-Bench on the command line, with a judge behind HTTP that writes what judges write."""

import json
from typing import Any

import pytest

from editcritic.benchmarks.suites.results import load_results

from ....reward.experts.http_server import Answer, ReceivedRequest, completion, serving
from .layout import key_of, on_hub, outputs, rows

KIND = "subject-add"
SAID = {0: '{"score": [8, 6], "reasoning": "a cup is there"}', 1: "[7, 9]", 2: "8", 3: "I cannot judge this picture."}
"""What the judge writes about semantic consistency, by the number of the edit."""


def reply(request: ReceivedRequest, number: int) -> Answer:
    if request.path.endswith("/models"):
        return Answer({"data": [{"id": "m"}]})
    parts = request.body["messages"][-1]["content"]
    text = " ".join(part["text"] for part in parts if part["type"] == "text")
    pictures = sum(part["type"] == "image_url" for part in parts)
    if pictures == 1:
        return Answer(completion('{"score": [9, 9], "reasoning": "clean"}'))
    (about,) = (one for one in SAID if f"Edit number {one} of" in text)
    return Answer(completion(SAID[about]))


@pytest.mark.parametrize(
    ("protocol", "expected", "failed"), [("fixed", {0: 6.0}, {1, 2, 3}), ("official", {0: 6.0, 1: 7.0, 2: 8.0}, {3})]
)
def test_what_cannot_be_read_is_a_failed_score_and_listed(editcritic, tmp_path, protocol, expected, failed):
    data, made, out = on_hub(tmp_path / "data", rows([KIND])), outputs(tmp_path / "made", [KIND]), tmp_path / "out"
    with serving(reply) as server:
        judge = f"judge=openai:{server.url}?model=m&retries=0"
        words = ["gedit?language=en", "--data", data, "--outputs", made, "-o", out, "--protocol", protocol]
        editcritic("bench", "run", *words, "--experts", judge)
        sent = [request.body for request in server.requests if request.path.endswith("chat/completions")]
    forms = [body.get("response_format") for body in sent]
    assert forms
    assert all((form is None) == (protocol == "official") for form in forms)
    scores = {int(row.id[-4:-2]): row.scores["sc"] for row in load_results(out).rows}
    assert {number: score.value for number, score in scores.items() if score.value is not None} == expected
    assert {number for number, score in scores.items() if score.status == "failed"} == failed
    assert any(SAID[3] in item.text for item in scores[3].evidence)
    result: dict[str, Any] = json.loads((out / "result.json").read_text())
    # A failed score is signed like the others: a run with failures has no other metric than one without.
    signatures = {name: [f"viescore-{name}@1/{protocol}"] for name in ("sc", "pq")}
    assert result["provenance"]["score_signatures"] == signatures
    cell = result["tables"][0]["rows"]["all"]["EN SC"]
    assert (cell["count"], cell["num_missing"]) == (len(expected), len(failed))
    missing = f"sc: {len(failed)} of 4 without a value ({len(failed)} failed)"
    assert any(missing in note for note in result["tables"][0]["notes"])
    combined = next((out / "eval_results_new").glob("*combined*")).read_text()
    assert [key_of(KIND, number) in combined for number in SAID] == [number in expected for number in SAID]
