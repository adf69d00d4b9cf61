"""The measuring scripts do the work they say they measure. Their timings are nobody's to assert."""

import json
import subprocess
import sys

import pytest

NEEDS = ("torch", "transformers")

pytestmark = pytest.mark.slow

SCRIPTS = {"stream_memory": ["--samples", "40", "--side", "64", "--json"]}


@pytest.mark.parametrize("name", SCRIPTS)
def test_it_prints_what_it_measured(name):
    module = f"studies.performance.{name.split()[0]}"
    ran = subprocess.run([sys.executable, "-m", module, *SCRIPTS[name]], capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found.get("samples", 40) == 40
    assert all(isinstance(value, int | float) for value in found.values())


@pytest.mark.parametrize("log", [False, True])
def test_the_cost_of_a_sample_is_measured_on_rewards_that_build_no_card_and_plan_once(log):
    found = ran("engine_overhead", "--samples", "9", "--repeats", "1", *(["--log"] if log else []))
    assert found["samples"] == 9
    assert found["hashing, µs a picture of 512 x 512"] > found["hashing, µs a picture"] > 0
    for name, least in (("any-edit", 15), ("edival-if", 1)):
        one = found[name]
        assert one["queries a sample"] >= least
        assert one["cards built, warm, a sample"] == 0
        assert all(one[f"{part}, µs a sample"] > 0 for part in ("cold", "warm", *(["from a log"] if log else [])))
    assert 0 < found["any-edit"]["plans made, warm, a sample"] <= 1  # an edit that a guard rejects needs none


def test_refind_quality_counts_what_it_finds():
    module = "studies.performance.matching_quality"
    ran = subprocess.run([sys.executable, "-m", module, "--every", "19"], capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr
    assert "moved" in ran.stdout


def ran(script, *options):
    command = [sys.executable, "-m", f"studies.performance.{script}", *options, "--json"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


@pytest.mark.parametrize(
    ("detector", "roles"), [("grounding-dino", ["detector", "features", "judge"]), ("owlv2", ["detector"])]
)
def test_shared_work_asks_every_question_once_and_encodes_every_picture_once(detector, roles):
    options = ["--chains", "2", "--rollouts", "2", "--shapes", "tiny", "--batches", "4", "--detector", detector]
    (found,) = ran("sharing_gain", *options, "--roles", *roles)
    assert found["samples"] == 6
    one_by_one, shared = found["released"], found["ours"]
    for role in roles:
        assert one_by_one["calls"][role] == one_by_one["queries"][role] >= found["distinct"][role]
        assert shared["queries"][role] == found["distinct"][role]
        assert shared["image_passes"][role] == found["images"][role]
    for way in (one_by_one, shared):  # models compute in turn: no second is spent twice
        assert sum(way["seconds_by_role"].values()) <= way["seconds"]
    for role in set(roles) - {"judge"}:  # every question is about a picture, and it is encoded for every one of them
        assert one_by_one["image_passes"][role] == one_by_one["queries"][role] > found["distinct"][role]


def test_throughput_tells_the_hardware_and_a_row_a_batch_size(tmp_path):
    options = ["--shapes", "tiny", "--seconds", "0.01", "--batches", "1", "3", "--save", str(tmp_path)]
    found = ran("throughput", *options)
    for role in ("detector", "features", "judge"):
        assert [row["batch"] for row in found[role]["rows"]] == [1, 3]
        assert all(row["a second"] > 0 for row in found[role]["rows"])
    (file,) = tmp_path.iterdir()
    assert json.loads(file.read_text()) == found


def test_judged_work_asks_a_judge_nothing_twice_and_takes_one_pass_a_grade():
    found = ran("judge_calls", "--outputs", "3")
    assert found["outputs"] == 3
    for name in ("one source", "several sources"):
        alone, together = found[name]["one by one"], found[name]["together"]
        assert together["statuses"].keys() <= {"scored", "abstained"}
        assert alone["queries"] > together["queries"] == together["distinct"] == alone["distinct"]
        assert together["image_passes"] == together["images"] < together["shown"]
        assert all(number == 1 for topic, number in together["topics"].items() if "/questions_" in topic)
        assert together["topics"]["i2i/success"] == 3
    assert found["one source"]["one by one"]["topics"]["i2i/success"] == 12  # four dimensions ask it
    edited = found["complex-edit expected"]
    assert edited["statuses"] == {"scored": 3}
    assert edited["queries"] == edited["forward_passes"] == 9
    assert edited["image_passes"] == edited["images"] == 4


def test_serving_compares_a_server_with_the_same_reward_without_one():
    options = ["--samples", "4", "--repeats", "1", "--costs", "0.01", "--batches", "2", "--lasts", "0.2"]
    found = ran("serving_overhead", *options)  # which checks every score
    assert {one["packing"] for one in found["cpu_ms"]} == {"rgb, multipart", "png, json"}
    (rate,) = found["throughput"]
    assert (rate["seconds"], rate["batch"]) == (0.01, 2)
    assert rate["share"] == rate["served"] / rate["direct"]


def test_the_cost_of_laptop_is_that_of_edits_that_are_decided():
    found = ran("laptop_cost", "--shrunk", "--side", "512")
    assert found["peak MB"] > 0
    for row in found["rows"]:
        assert row["following"] >= 0.75
        assert row["detections"] >= 1
        assert row["s"] > 0
    rows = ran("laptop_cost", "--shrunk", "--side", "128", "--detectors", "--repeats", "1")["rows"]
    assert len(rows) == 5
    assert all(row["new picture s"] > 0 for row in rows)
