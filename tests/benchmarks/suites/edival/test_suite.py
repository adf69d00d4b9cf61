"""EdiVal end to end: its published layout, an editor's outputs, judges, tables."""

import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.benchmarks.suites.edival.reader import CSV
from editcritic.benchmarks.suites.edival.suite import EdiVal, compress_instructions
from editcritic.benchmarks.suites.results import ResultRow, Results
from editcritic.benchmarks.suites.suite import SuiteItem
from editcritic.benchmarks.suites.tables import ComputedTable
from editcritic.reward import EditSample, Image, Reward, Score
from editcritic.reward.config import build
from editcritic.reward.engine.engine import Engine
from editcritic.reward.metrics.edival.released_code import rating_instruction
from editcritic.reward.score import Evidence

from ..table_values import cells, table, values
from .layout import ZIP, chains, index_of, write_data, write_outputs

COUNT = 3


@cache
def chained() -> list[tuple[EditSample, ...]]:
    return chains(COUNT)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"), chained())


@pytest.fixture(scope="module")
def suite(data):
    return EdiVal(data)


def judged(suite: EdiVal, outputs: Path, protocol: str | None = None) -> Results:
    """What SceneEdit's critics say of all outputs that are there."""
    there = {item.id: path for item in suite.items if (path := suite.find_output(outputs, item)) is not None}
    by_id = {item.id: item for item in suite.items}
    samples = {name: suite.edited_sample(by_id[name], lambda one: Image.open(there[one.id])) for name in there}
    with Engine() as engine:
        found = {
            name: dict(zip(samples, Reward.of(spec, scene_experts(), engine=engine)(samples.values()), strict=True))
            for name, spec in suite.metrics(protocol).items()
        }
    return scored(suite, lambda item: {n: scores[item.id] for n, scores in found.items() if item.id in scores})


def scored(
    suite: EdiVal, scores: Callable[[SuiteItem], Mapping[str, Score]], **labels: Callable[[SuiteItem], str]
) -> Results:
    rows = []
    for item in suite.items:
        said = {**item.labels, **{name: label(item) for name, label in labels.items()}}
        found = scores(item)
        missing = "" if found else "no picture"
        rows.append(ResultRow(item.id, item.case, said, found, missing, instruction=item.sample.instruction))
    return Results("scene", rows)


def scripted(suite: EdiVal, followed: Callable[[int, int], float | None], *, without: Sequence[str] = ()) -> Results:
    """Results in which instruction following alone is known: of picture and turn."""

    def scores(item: SuiteItem) -> dict[str, Score]:
        value = followed(int(item.case), int(item.labels["turn"]))
        return {"if": Score.failed("a broken judge") if value is None else Score.of(value)}

    return scored(suite, lambda item: {} if item.id in without else scores(item))


def test_items_are_the_turns_of_the_chains_each_after_the_one_before(suite, tmp_path):
    assert not suite.problems
    assert [item.id for item in suite.items[:4]] == ["0/multipass/1", "0/multipass/2", "0/multipass/3", "1/multipass/1"]
    assert [item.previous for item in suite.items[:4]] == ["", "0/multipass/1", "0/multipass/2", ""]
    assert suite.items[-1].output_path == f"multipass/{index_of(COUNT - 1)}_input_raw_turn_3"
    for item, wanted in zip(suite.items, [turn for turns in chained() for turn in turns], strict=True):
        assert item.sample.source == wanted.base
        assert (item.sample.task, item.sample.pools) == (wanted.task, wanted.pools)
        assert item.sample.instruction == wanted.instruction, "without the literal quotes"
    outputs = write_outputs(tmp_path, chained())
    sample = suite.edited_sample(suite.items[2], lambda item: Image.open(suite.find_output(outputs, item) or Path()))
    assert [(turn.source, turn.edited) for turn in sample.turns] == [
        (turn.source, turn.edited) for turn in chained()[0]
    ]


def test_multipass_runs_from_the_published_layout_to_the_tables(suite, tmp_path):
    results = judged(suite, write_outputs(tmp_path / "gen", chained()))
    assert {name for row in results.rows for name in row.scores} == {"if", "cc", "vq"}
    tables = suite.tables(results)
    names = ["leaderboard", "rates", "types", "consistency", "quality", "luminance", "pass-rates"]
    assert ([one.name for one in tables], tables[0].ranking_column) == (names, "O T3")
    board = values(suite, results, "leaderboard")["all"]
    following, consistent, both = (board[f"{name} T3"] or 0 for name in ("IF", "CC", "O"))
    assert both == pytest.approx((following * consistent) ** 0.5)
    alike = values(suite, results, "consistency")
    halves: list[Any] = [alike[f"{half}, features"]["T3"] for half in ("objects", "background")]
    assert consistent == pytest.approx(sum(halves) / 2)
    rates = values(suite, results, "rates")
    assert rates["image success"]["T1"] == rates["task rate"]["T1"]
    means = [row.value("if") for row in results.filter(turn=3)]
    assert rates["task rate"]["T3"] == pytest.approx(100 * sum(value or 0.0 for value in means) / COUNT)
    assert all(0 < (cell or 0) <= 100 for row in values(suite, results, "luminance").values() for cell in row.values())


def test_singlepass_judges_every_instruction_of_one_picture(data, tmp_path):
    suite = EdiVal(data, mode="singlepass", vq=False)
    third = suite.by_id["0/singlepass/3"]
    assert third.sample.instruction == ". ".join(turn.instruction for turn in chained()[0])
    assert (third.previous, len(third.sample.operations)) == ("", 3)
    results = judged(suite, write_outputs(tmp_path / "gen", chained(), "singlepass"))
    assert [len(row.scores["if"].credits) for row in results.rows[:3]] == [1, 2, 3]
    credits: list[list[Any]] = [
        [one.value for one in row.scores["if"].credits.values()] for row in results.filter(turn=3)
    ]
    assert {name: row["C3"] for name, row in values(suite, results, "rates").items()} == pytest.approx(
        {
            "image success": 100 * sum(all(one) for one in credits) / COUNT,
            "task rate": 100 * sum(map(sum, credits)) / (3 * COUNT),
            "marginal task rate": 100 * sum(one[-1] for one in credits) / COUNT,
        }
    )
    assert results.rows[2].scores["cc"].metric == "edival-cc@3/fixed"


def test_image_success_is_the_and_over_the_turns_so_far_without_what_failed(suite):
    rates = values(suite, scripted(suite, lambda *at: float(at not in {(0, 2), (1, 3)})), "rates")
    assert rates["image success"] == pytest.approx({"T1": 100.0, "T2": 200 / 3, "T3": 100 / 3})
    assert rates["task rate"] == pytest.approx({"T1": 100.0, "T2": 200 / 3, "T3": 200 / 3})
    found = cells(suite, scripted(suite, lambda *at: None if at == (0, 2) else 1.0), "rates")
    counted = {name: [(cell.count, cell.num_missing) for cell in row.values()] for name, row in found.items()}
    assert [cell.value for cell in found["task rate"].values()] == [100.0] * 3
    assert counted["task rate"] == [(3, 0), (2, 1), (3, 0)]
    assert counted["image success"] == [(3, 0), (2, 1), (2, 1)]


def test_what_was_not_judged_has_no_table(suite):
    for results, names in (
        (scripted(suite, lambda *at: 1.0), ["leaderboard", "rates", "types"]),
        (scored(suite, lambda item: {"cc": Score.of(0.9)}), ["leaderboard", "consistency"]),
        (Results("nobody", []), []),
    ):
        assert [one.name for one in suite.tables(results)] == names


def test_a_picture_that_lacks_a_turn_is_left_out_as_the_option_says(data):
    counts = {}
    for incomplete in ("drop", "later"):
        suite = EdiVal(data, incomplete=incomplete)
        results = scripted(suite, lambda case, turn: 1.0, without=["1/multipass/2", "1/multipass/3"])
        rates = table(suite, results, "rates")
        counts[incomplete] = [cell.count for cell in ComputedTable.compute(rates, None).cells["image success"].values()]
        assert any("1 of 3 images lack a turn" in note and f"incomplete={incomplete}" in note for note in rates.notes)
    assert counts == {"drop": [2, 2, 2], "later": [3, 2, 2]}


@pytest.mark.parametrize(("protocol", "count"), [("fixed", COUNT), ("official", COUNT - 1)])
def test_the_official_protocol_measures_no_consistency_after_a_change_of_background(suite, protocol, count):
    part = Score.of(0.9).with_signature(f"edival-cc-objects@1/{protocol}")
    whole = Score.of(0.9, parts={"objects": part, "background": part}).with_signature(f"edival-cc@3/{protocol}")
    changed = {"0": "kept", "1": "changed", "3": "kept"}
    results = scored(suite, lambda item: {"cc": whole}, background=lambda item: changed[item.case])
    assert cells(suite, results, "consistency")["objects, features"]["T1"].count == count


def test_padded_pictures_have_a_table_of_their_own(suite):
    whole = Score.of(0.9, parts={"objects": Score.of(0.9), "background": Score.of(0.8)})
    padded = scored(suite, lambda item: {"cc": whole}, shape=lambda item: "padded" if item.case == "1" else "square")
    counts = [
        cells(suite, padded, f"consistency-{shape}")["background, features"]["T2"] for shape in ("padded", "square")
    ]
    assert [cell.count for cell in counts] == [1, COUNT - 1]


def test_a_half_with_nothing_to_compare_is_no_part_of_the_question_and_a_failed_one_is_missed(suite):
    halves = {"0": Score.of(0.5), "1": Score.not_applicable("no object"), "3": Score.failed("no detector")}
    results = scored(
        suite,
        lambda item: {"cc": Score.of(0.9, parts={"objects": halves[item.case], "background": Score.of(0.7)})},
    )
    cell = cells(suite, results, "consistency")["objects, features"]["T1"]
    assert (cell.value, cell.count, cell.num_missing) == (50.0, 1, 1)
    assert values(suite, results, "leaderboard")["all"]["CC T1"] == pytest.approx(60.0)


def test_changes_of_quality_are_given_in_both_ways(suite):
    ratings = {"0": 5.0, "1": 3.0, "3": 4.6}
    light = [Evidence("luminance of the edited picture", numbers={"99 %": 0.5, "99.9 %": 0.6})]

    def quality(protocol: str) -> Results:
        def score(rating: float) -> Score:
            parts = {"base": Score.of(4.0), "change": Score.of(rating - 4.0)}
            return Score.of(rating, parts=parts, evidence=light).with_signature(f"edival-vq@1/{protocol}/instruction")

        return scored(suite, lambda item: {"vq": score(ratings[item.case])})

    found = quality("paper")
    assert {name: row["T2"] for name, row in values(suite, found, "quality").items()} == pytest.approx(
        {"VQ": 4.2, "base": 4.0, "change of the mean": 0.2, "mean change": 2.6 / 3}
    )
    assert {name: row["T1"] for name, row in values(suite, found, "luminance").items()} == pytest.approx(
        {"99.9 %, edited": 60.0, "99.9 %, base": None, "99 %, edited": 50.0, "99 %, base": None}
    )
    for results, linear in ((found, False), (quality("official"), True)):
        assert any("linear light" in note for note in table(suite, results, "luminance").notes) is linear


def test_the_shares_of_figure_1_have_both_thresholds_in_them(suite):
    """CC and VQ of three pictures: (0.90, 6.0) passes, (0.95, 5.9) and (0.89, 8.0) do each by half."""
    given = {"0": (0.90, 6.0), "1": (0.95, 5.9), "3": (0.89, 8.0)}
    scores = {case: {"cc": Score.of(cc), "vq": Score.of(vq)} for case, (cc, vq) in given.items()}
    found = values(suite, scored(suite, lambda item: scores[item.case]), "pass-rates")
    two, one = pytest.approx(200 / 3), pytest.approx(100 / 3)
    shares = {"CC of at least 90 %": two, "VQ of at least 6": two, "both": one}
    assert {name: row["T1"] for name, row in found.items()} == shares
    scores["3"]["cc"] = Score.not_applicable("no object")
    cell = cells(suite, scored(suite, lambda item: scores[item.case]), "pass-rates")["VQ of at least 6"]["T1"]
    assert (cell.value, cell.count, cell.num_missing) == (50.0, 2, 0)


def test_o_over_turns_is_the_root_of_both_means(suite):
    """IF 1, 2/3, 1/3 and CC 0.9, 0.8, 0.7 at three turns: the root of 2/3 times 0.8."""

    def scores(item: SuiteItem) -> dict[str, Score]:
        turn = int(item.labels["turn"])
        half = Score.of(1.0 - turn / 10)
        followed = Score.of(float((item.case, turn) not in {("0", 2), ("1", 3)}))
        return {"if": followed, "cc": Score.of(half.value or 0, parts={"objects": half, "background": half})}

    board = values(suite, scored(suite, scores), "leaderboard")["all"]
    assert board["O over turns"] == pytest.approx(100 * (2 / 3 * 0.8) ** 0.5)
    assert board["O T3"] == pytest.approx(100 * (1 / 3 * 0.7) ** 0.5)


@pytest.mark.parametrize("mode", ["multipass", "singlepass"])
@pytest.mark.parametrize("protocol", [None, "paper", "official", "official-fixed"])
def test_protocols_name_how_following_and_consistency_are_judged(data, mode, protocol):
    following = "official" if "official" in (protocol or "") else "paper"
    consistency = "official" if protocol == "official" else "fixed"
    specs = EdiVal(data, mode=mode, vq_prompt="empty").metrics(protocol)
    assert list(specs) == ["if", "cc", "vq"]
    built = [build(spec) for spec in specs.values()]
    first, second = (built[0].following, built[1].metric) if mode == "singlepass" else built[:2]
    assert first.signature == f"edival-if@3/{following}"
    assert f"{second.card.signature}/{second.protocol}" == f"edival-cc@3/{consistency}"
    assert (built[2].prompt, built[2].protocol) == ("empty", following)


@pytest.mark.parametrize("mode", ["multipass", "singlepass"])
def test_the_released_code_rates_with_the_last_instruction_and_its_quotes(data, mode):
    suite = EdiVal(data, mode=mode)
    published = {item.id: suite.turns[item.id].instructions[-1] for item in suite.items}
    assert {item.id: rating_instruction(item.sample) for item in suite.items} == published
    assert any(text.startswith('"') for text in published.values())


def test_what_does_not_exist_is_refused_with_what_does(data, tmp_path):
    cases: list[tuple[Path, dict[str, Any], str]] = [
        (data, {"mode": "both"}, "no mode 'both': expected one of multipass, singlepass"),
        (data, {"compression": "keep"}, "compression=keep is for mode=singlepass"),
        (tmp_path / "none", {}, "does not exist: give the folder with oai_instruction"),
        (tmp_path, {}, "contains no CSV file"),
    ]
    for folder, options, message in cases:
        with pytest.raises(InputError, match=message):
            EdiVal(folder, **options)


def test_pictures_that_are_missing_or_damaged_are_named_and_the_others_are_there(tmp_path):
    folder = write_data(tmp_path / "data", chained())
    (folder / ZIP).unlink()
    chained()[0][0].source.pil().save(folder / "0_input_raw.jpg")
    (folder / "1_input_raw.jpg").write_bytes(b"no picture")
    suite = EdiVal(folder)
    assert {item.case for item in suite.items} == {"0"}
    assert [problem.location for problem in suite.problems] == ["image 1", "image 3"]
    assert "is not an image" in suite.problems[0].message
    assert suite.problems[1].message == "there is no 3_input_raw.jpg (or .png), so its 3 turns are left out"
    (folder / "0_input_raw.jpg").unlink()
    with pytest.raises(InputError, match="has no usable items"):
        EdiVal(folder)


def test_a_turn_beyond_the_limits_ends_its_chain_and_no_other(tmp_path):
    first, *others = chained()
    long = (first[0], replace(first[1], instruction=first[1].instruction[:4000].ljust(4000, "a")), *first[2:])
    folder = write_data(tmp_path / "data", [long, *others])
    file = folder / CSV
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("a" * 1000, "a" * 2000), encoding="utf-8")
    suite = EdiVal(folder)
    assert [item.id for item in suite.items if item.case == "0"] == ["0/multipass/1"]
    assert len(suite.items) == 1 + 3 * len(others)
    (problem,) = (one for one in suite.problems if "left out" in one.message)
    assert problem.location == f"{file}:3"
    assert "the instruction has " in problem.message
    assert "at most 4,000 are allowed" in problem.message
    assert all(len(str(one)) < 1000 for one in suite.problems)


def test_equal_data_has_one_digest_wherever_it_lies_and_options_are_what_results_depend_on(data, suite, tmp_path):
    folder = write_data(tmp_path / "data", chained(), nested="")
    assert EdiVal(folder).digest == EdiVal(folder / CSV).digest == suite.digest
    assert EdiVal(write_data(tmp_path / "less", chained()[:2])).digest != suite.digest
    assert EdiVal(data, mode="singlepass").digest != suite.digest
    assert suite.options == {"mode": "multipass", "incomplete": "later", "vq": True, "vq_prompt": "instruction"}
    shuffled = EdiVal(data, mode="singlepass", compression="shuffle", seed=4, vq=False)
    options = {"mode": "singlepass", "incomplete": "later", "vq": False, "compression": "shuffle", "seed": 4}
    assert shuffled.options == options
    assert list(shuffled.metrics()) == ["if", "cc"]


def test_outputs_in_the_data_folder_are_no_base_pictures(tmp_path):
    folder = write_data(tmp_path / "data", chained())
    with zipfile.ZipFile(folder / ZIP) as archive:
        archive.extractall(folder / "pictures")
    (folder / ZIP).unlink()
    outputs = write_outputs(folder / "generations", chained())
    suite = EdiVal(folder)
    assert not suite.problems
    assert len(suite.items) == 3 * COUNT
    again = EdiVal(folder / CSV, images=str(outputs / "multipass"))
    assert [item.id for item in again.items] == [item.id for item in suite.items]


def test_outputs_may_lie_in_the_folder_of_their_mode_or_right_in_it(suite, tmp_path):
    outputs, first = write_outputs(tmp_path, chained()), suite.items[0]
    png = outputs / "multipass" / "0_input_raw_turn_1.png"
    assert suite.find_output(outputs, first) == suite.find_output(outputs / "multipass", first) == png
    jpg = png.rename(png.with_suffix(".jpg"))
    assert suite.find_output(outputs, first) == jpg
    jpg.unlink()
    assert suite.find_output(outputs, first) is None


SAID = ("Remove cup", "Add hat.", "Change the color of cat to red")


@pytest.mark.parametrize(
    ("said", "compression", "unchanged", "joined"),
    [
        (SAID, "default", (), "Remove cup. Add hat. Change the color of cat to red"),
        (SAID[:1], "sequential", (), "Remove cup"),
        (SAID[:2], "sequential", (), "first, Remove cup, then, Add hat"),
        (SAID, "sequential", (), "first, Remove cup, then, Add hat, last, Change the color of cat to red"),
        (SAID[:1], "keep", ("cat", "dog"), "Remove cup. Keep cat, dog unchanged."),
        (SAID[:1], "keep", (), "Remove cup"),
    ],
)
def test_instructions_are_joined_as_published(said, compression, unchanged, joined):
    assert compress_instructions(said, compression, unchanged=unchanged) == joined


def test_a_shuffle_keeps_all_instructions_and_is_the_same_for_the_same_seed():
    drawn = {compress_instructions(SAID, "shuffle", seed=str(seed)) for seed in range(40)}
    assert len(drawn) == 6
    assert {frozenset(one.split(". ")) for one in drawn} == {frozenset(("Remove cup", "Add hat", SAID[2]))}
    assert compress_instructions(SAID, "shuffle", seed="5") == compress_instructions(SAID, "shuffle", seed="5")
