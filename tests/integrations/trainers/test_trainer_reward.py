"""What a trainer gets for a batch: values, none for what has none, retries, and columns to log."""

import math
import pickle
from typing import Any

import pytest

from editcritic.integrations.serving.server import ScoringService, serve_in_thread
from editcritic.integrations.trainers.trainer_reward import TrainerReward, UnscoredError, resolve_scorer
from editcritic.reward import EditSample, Image, Score
from editcritic.reward.training.monitored_reward import MonitoredReward

from .trainer_cases import Batch, Judge, batch, values

EDITS = batch()
SLEEP = "editcritic.integrations.trainers.trainer_reward.sleep"


def rows(edits: Batch) -> list[EditSample | str]:
    return [
        EditSample(id=f"edit-{row}", instruction=prompt, sources=(source,), edited=edited)
        for row, (prompt, source, edited) in enumerate(zip(edits.prompts, edits.sources, edits.edited, strict=True))
    ]


def test_values_are_those_of_the_reward_and_parts_are_columns():
    scored = TrainerReward(Judge().reward())(rows(EDITS))
    assert scored.values == values(EDITS)
    assert scored.columns["reward"] == scored.columns["following"] == scored.values
    assert scored.columns["preservation"] == [1 - value for value in scored.values]
    assert scored.columns["guard"] == [1.0] * 16
    assert scored.columns["unscored"] == scored.columns["abstained"] == [0.0] * 16
    assert len(set(scored.columns["judge_seconds"])) == 1


def test_a_failure_that_passes_is_asked_again_at_once_and_the_others_are_not():
    judge = Judge(failing={EDITS.edited[5].digest: 1})
    scored = TrainerReward(judge.reward())(rows(EDITS))
    assert scored.values == values(EDITS)
    assert sum(judge.batches) == 17


def test_infrastructure_is_asked_again_after_pauses_within_a_deadline(monkeypatch):
    pauses: list[float] = []
    monkeypatch.setattr(SLEEP, pauses.append)
    judge = Judge(failing={EDITS.edited[5].digest: 4})
    assert TrainerReward(judge.reward(on_failures="none"), outage_timeout_s=60)(rows(EDITS)).values == values(EDITS)
    assert [round(pause / wanted, 0) for pause, wanted in zip(pauses, (1, 2, 4), strict=True)] == [1, 1, 1]
    lasting = Judge(failing=Judge.always(EDITS.edited[5]))
    with pytest.raises(UnscoredError, match=r"1 of 16 edits have no score: edit-5: failed \(.*did not answer") as got:
        TrainerReward(lasting.reward(on_failures="none"), outage_timeout_s=0)(rows(EDITS))
    again = pickle.loads(pickle.dumps(got.value))
    assert (again.scores, str(again)) == (got.value.scores, str(got.value))


def test_a_monitored_reward_counts_an_edit_that_is_asked_again_once(monkeypatch):
    monkeypatch.setattr(SLEEP, lambda seconds: None)
    judge = Judge(failing={EDITS.edited[5].digest: 3})
    reward = MonitoredReward(judge.reward(on_failures="none"), step_samples=len(EDITS.edited) + 1)
    assert TrainerReward(reward)(rows(EDITS)).values == values(EDITS)
    assert reward.monitor.steps == 0  # one more edit would complete the first


@pytest.mark.parametrize("on_failures", ["raise", "wait"])
def test_edits_that_fail_for_the_whole_time_are_no_outage(monkeypatch, on_failures):
    clock = [0.0]
    monkeypatch.setattr(SLEEP, lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    monkeypatch.setattr(SLEEP.replace("sleep", "monotonic"), lambda: clock[0])
    edits = batch(groups=16)
    judge = Judge(failing=Judge.always(*edits.edited[:20:4]))
    reward = judge.reward(on_failures=on_failures, outage_timeout_s=0.0)
    scored = TrainerReward(reward, missing="nan")(rows(edits))
    assert [math.isnan(value) for value in scored.values] == [row in range(0, 20, 4) for row in range(64)]
    assert clock[0] > 30


def test_the_client_of_a_server_asks_again_without_its_limit():
    with serve_in_thread(ScoringService(Judge().reward())) as url:
        client: Any = resolve_scorer(url)
        unlimited = client.without_failure_limit()
        assert (client.on_failures, unlimited.on_failures) == ("wait", "none")
        assert unlimited(rows(EDITS)).values == values(EDITS)


def test_an_edit_that_nobody_can_judge_has_the_lowest_value_and_is_not_asked_after_a_pause(monkeypatch):
    monkeypatch.setattr(SLEEP, no_pause)
    judge = Judge(abstaining={EDITS.edited[3].digest})
    scored = TrainerReward(judge.reward())(rows(EDITS))
    assert scored.values[3] == 0.0
    assert scored.columns["abstained"] == [float(row == 3) for row in range(16)]
    assert scored.columns["unscored"] == [0.0] * 16
    excluded = TrainerReward(judge.reward(), abstained="exclude", missing="nan")(rows(EDITS))
    assert math.isnan(excluded.values[3])


def no_pause(seconds: float) -> None:
    raise AssertionError(f"a pause of {seconds} s")


def test_a_missing_value_is_no_number_and_its_columns_are_the_mean_of_the_others():
    judge = Judge(failing=Judge.always(EDITS.edited[5]))
    scored = TrainerReward(judge.reward(on_failures="none"), missing="nan", outage_timeout_s=0)(rows(EDITS))
    known = [value for row, value in enumerate(values(EDITS)) if row != 5]
    assert math.isnan(scored.values[5])
    assert scored.values[:5] + scored.values[6:] == known
    assert scored.columns["reward"][5] == scored.columns["following"][5] == pytest.approx(sum(known) / 15)
    assert scored.columns["unscored"] == [float(row == 5) for row in range(16)]
    nothing = TrainerReward(lambda samples: [Score.not_applicable("no text")] * len(samples), missing="nan")
    empty = nothing(rows(EDITS))
    assert set(empty.columns) == set(scored.columns)
    assert all(math.isnan(value) for value in (*empty.values, *empty.columns["reward"], *empty.columns["guard"]))


def test_a_row_that_is_no_edit_has_no_value_and_is_not_asked():
    mixed = ["the image edited: NaN", *rows(EDITS)[1:]]
    judge = Judge()
    scored = TrainerReward(judge.reward(), missing="nan")(mixed)
    assert math.isnan(scored.values[0])
    assert sum(judge.batches) == 15


def test_options_are_given_by_keyword_and_in_urls():
    assert TrainerReward(Judge().reward(), missing=math.nan).missing == "nan"  # as hydra reads the word
    built = resolve_scorer("edit-balanced", on_failures="none", max_failure_rate="0.25")
    assert (built.on_failures, built.max_failure_rate) == ("none", 0.25)  # type: ignore[attr-defined]
    assert resolve_scorer("edit-balanced").on_failures == "wait"  # type: ignore[attr-defined]
    url = "http://127.0.0.1:1?on_failures=none&max_failure_rate=0.25&max_concurrency=2&chunk_size=64"
    remote: Any = resolve_scorer(url)
    assert (remote.on_failures, remote.max_failure_rate) == ("none", 0.25)
    assert (remote.max_concurrency, remote.chunk_size, remote.detail) == (2, 64, "parts")
    assert resolve_scorer("http://127.0.0.1:1", chunk_size="64").chunk_size == 64  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"takes the options on_failures, .* got 'chunk_size'"):
        resolve_scorer("edit-balanced", chunk_size=64)
    with pytest.raises(ValueError, match="give on_failures to it instead"):
        resolve_scorer(Judge().reward(), on_failures="none")
    for wrong, message in (
        ({"missing": "0"}, "missing must be 'raise' or 'nan', got '0'"),
        ({"abstained": "mean"}, "abstained must be 'lowest' or 'exclude'"),
        ({"outage_timeout_s": "soon"}, "outage_timeout_s is a number, got 'soon'"),
        ({"outage_timeout_s": -1}, "0 or more"),
    ):
        with pytest.raises(ValueError, match=message):
            TrainerReward(Judge().reward(), **wrong)


def test_parts_are_named_by_path_and_the_nearest_counts():
    inner = {"guard": Score.of(0.25, parts={"not_a_copy": Score.of(0.5)}), "following": Score.of(0.75)}
    score = Score.of(1.0, parts={"outer": Score.of(1.0, parts=inner), "guard": Score.of(0.0)})
    reward = TrainerReward(lambda samples: [score], logged_parts=("following", "guard", "outer/guard/not_a_copy"))
    (sample, *_) = rows(EDITS)
    columns = reward([sample]).columns
    assert [columns[name][0] for name in reward.logged_parts] == [0.75, 0.0, 0.5]


def test_images_of_groups_are_different():
    images: list[Image] = [*EDITS.edited, *EDITS.sources[::4]]
    assert len({image.digest for image in images}) == 20
