"""EdiVal end to end: its published layout, an editor's outputs, judges, tables."""

import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.benchmarks.suites.edival.reader import CSV
from editcritic.benchmarks.suites.edival.suite import EdiVal, compress_instructions
from editcritic.benchmarks.suites.results import ResultRow, Results
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


def judged(suite: EdiVal, outputs: Path, protocol: str | None = None) -> Results:
    """What SceneEdit's critics say of all outputs that are there."""
    there = {item.id: path for item in suite.items if (path := suite.find_output(outputs, item)) is not None}
    samples = {
        item.id: suite.edited_sample(item, lambda one: Image.open(there[one.id]))
        for item in suite.items
        if item.id in there
    }
    with Engine() as engine:
        experts = scene_experts()
        scores = {
            name: dict(zip(samples, Reward.of(spec, experts, engine=engine)(samples.values()), strict=True))
            for name, spec in suite.metrics(protocol).items()
        }
    return Results(
        "scene",
        [
            row_of(suite, item.id, {n: by_id[item.id] for n, by_id in scores.items() if item.id in by_id})
            for item in suite.items
        ],
    )


def row_of(suite: EdiVal, name: str, scores: Mapping[str, Score]) -> ResultRow:
    item = suite.by_id[name]
    missing = "" if scores else "no picture"
    return ResultRow(name, item.case, item.labels, scores, missing, instruction=item.sample.instruction)


def scripted(suite: EdiVal, followed: Callable[[int, int], float | None], *, without: Sequence[str] = ()) -> Results:
    """Results in which instruction following alone is known: of picture and turn."""
    rows = []
    for item in suite.items:
        value = followed(int(item.case), int(item.labels["turn"]))
        score = Score.failed("a broken judge") if value is None else Score.of(value)
        rows.append(row_of(suite, item.id, {} if item.id in without else {"if": score}))
    return Results("scripted", rows)


def test_items_are_the_turns_of_the_chains_each_after_the_one_before(data):
    suite = EdiVal(data)
    assert not suite.problems
    assert [item.id for item in suite.items[:4]] == ["0/multipass/1", "0/multipass/2", "0/multipass/3", "1/multipass/1"]
    assert [item.previous for item in suite.items[:4]] == ["", "0/multipass/1", "0/multipass/2", ""]
    assert suite.items[-1].output_path == f"multipass/{index_of(COUNT - 1)}_input_raw_turn_3"
    for item, wanted in zip(suite.items, [turn for turns in chained() for turn in turns], strict=True):
        assert item.sample.source == wanted.base
        assert (item.sample.task, item.sample.pools) == (wanted.task, wanted.pools)
        assert item.sample.instruction == wanted.instruction, "without the literal quotes"


def test_a_turn_is_judged_against_the_picture_of_the_turn_before(data, tmp_path):
    suite, outputs = EdiVal(data), write_outputs(tmp_path, chained())
    sample = suite.edited_sample(suite.items[2], lambda item: Image.open(suite.find_output(outputs, item) or Path()))
    assert [turn.edited for turn in sample.turns] == [turn.edited for turn in chained()[0]]
    assert [turn.source for turn in sample.turns] == [turn.source for turn in chained()[0]]


def test_multipass_runs_from_the_published_layout_to_the_tables(data, tmp_path):
    suite, outputs = EdiVal(data), write_outputs(tmp_path / "gen", chained())
    results = judged(suite, outputs)
    assert {name for row in results.rows for name in row.scores} == {"if", "cc", "vq"}
    tables = suite.tables(results)
    assert [one.name for one in tables] == [
        "leaderboard", "rates", "types", "consistency", "quality", "luminance", "pass-rates",
    ]  # fmt: skip
    assert tables[0].ranking_column == "O T3"
    board = values(suite, results, "leaderboard")["all"]
    following, consistent, both = (board[f"{name} T3"] for name in ("IF", "CC", "O"))
    assert following is not None
    assert consistent is not None
    assert both == pytest.approx((following * consistent) ** 0.5)
    alike = values(suite, results, "consistency")
    halves = [alike[f"{half}, features"]["T3"] for half in ("objects", "background")]
    assert consistent == pytest.approx(sum(half or 0.0 for half in halves) / 2)
    rates = values(suite, results, "rates")
    assert rates["image success"]["T1"] == rates["task rate"]["T1"]
    means = [row.value("if") for row in results.filter(turn=3)]
    assert rates["task rate"]["T3"] == pytest.approx(100 * sum(value or 0.0 for value in means) / COUNT)
    assert all(
        0 < (cell or 0) <= 100 for cells in values(suite, results, "luminance").values() for cell in cells.values()
    )


def test_singlepass_judges_every_instruction_of_one_picture(data: Path, tmp_path: Path) -> None:
    suite = EdiVal(data, mode="singlepass", vq=False)
    outputs = write_outputs(tmp_path / "gen", chained(), "singlepass")
    third = suite.by_id["0/singlepass/3"]
    assert third.sample.instruction == ". ".join(turn.instruction for turn in chained()[0])
    assert (third.previous, len(third.sample.operations)) == ("", 3)
    results = judged(suite, outputs)
    assert [len(row.score("if").credits) for row in results.rows[:3] if row.score("if")] == [1, 2, 3]  # type: ignore[union-attr]
    rates = values(suite, results, "rates")
    credits = [[one.value for one in row.scores["if"].credits.values()] for row in results.filter(turn=3)]
    assert rates["image success"]["C3"] == pytest.approx(100 * sum(all(one) for one in credits) / COUNT)
    assert rates["task rate"]["C3"] == pytest.approx(100 * sum(map(sum, credits)) / (3 * COUNT))  # type: ignore[arg-type]
    assert rates["marginal task rate"]["C3"] == pytest.approx(100 * sum(one[-1] for one in credits) / COUNT)  # type: ignore[misc]
    consistency = results.rows[2].scores["cc"]
    assert consistency.metric == "edival-cc@3/fixed"


def test_image_success_is_the_and_over_the_turns_so_far(data):
    suite = EdiVal(data)
    results = scripted(suite, lambda case, turn: float((case, turn) not in {(0, 2), (1, 3)}))
    rates = values(suite, results, "rates")
    assert rates["image success"] == pytest.approx({"T1": 100.0, "T2": 200 / 3, "T3": 100 / 3})
    assert rates["task rate"] == pytest.approx({"T1": 100.0, "T2": 200 / 3, "T3": 200 / 3})


def test_what_was_not_judged_has_no_table(data):
    suite = EdiVal(data)
    assert [one.name for one in suite.tables(scripted(suite, lambda case, turn: 1.0))] == [
        "leaderboard",
        "rates",
        "types",
    ]
    rows = [row_of(suite, item.id, {"cc": Score.of(0.9)}) for item in suite.items]
    assert [one.name for one in suite.tables(Results("x", rows))] == ["leaderboard", "consistency"]
    assert suite.tables(Results("nobody", [])) == []


def test_a_failed_score_is_in_no_denominator_and_is_counted(data):
    suite = EdiVal(data)
    results = scripted(suite, lambda case, turn: None if (case, turn) == (0, 2) else 1.0)
    found = cells(suite, results, "rates")
    assert [(cell.value, cell.count, cell.num_missing) for cell in found["task rate"].values()] == [
        (100.0, 3, 0),
        (100.0, 2, 1),
        (100.0, 3, 0),
    ]
    assert [(cell.count, cell.num_missing) for cell in found["image success"].values()] == [(3, 0), (2, 1), (2, 1)]


def test_a_picture_that_lacks_a_turn_is_left_out_as_the_option_says(data):
    counts = {}
    for incomplete in ("drop", "later"):
        suite = EdiVal(data, incomplete=incomplete)
        results = scripted(suite, lambda case, turn: 1.0, without=["1/multipass/2", "1/multipass/3"])
        rates = table(suite, results, "rates")
        counts[incomplete] = [cell.count for cell in ComputedTable.compute(rates, None).cells["image success"].values()]
        assert any("1 of 3 images lack a turn" in note and f"incomplete={incomplete}" in note for note in rates.notes)
    assert counts == {"drop": [2, 2, 2], "later": [3, 2, 2]}


def test_the_official_protocol_measures_no_consistency_after_a_change_of_background(data):
    suite = EdiVal(data)
    counts = {}
    for protocol in ("fixed", "official"):
        part = Score.of(0.9).with_signature(f"edival-cc-objects@1/{protocol}")
        whole = Score.of(0.9, parts={"objects": part, "background": part}).with_signature(f"edival-cc@3/{protocol}")
        labels = [{**item.labels, "background": "changed" if item.case == "1" else "kept"} for item in suite.items]
        rows = [
            ResultRow(item.id, item.case, label, {"cc": whole}) for item, label in zip(suite.items, labels, strict=True)
        ]
        found = cells(suite, Results("x", rows), "consistency")
        counts[protocol] = found["objects, features"]["T1"].count
    assert counts == {"fixed": COUNT, "official": COUNT - 1}


def test_a_half_with_nothing_to_compare_is_no_part_of_the_question_and_a_failed_one_is_missed(data):
    suite = EdiVal(data)
    halves = {"0": Score.of(0.5), "1": Score.not_applicable("no object"), "3": Score.failed("no detector")}
    rows = [
        row_of(suite, item.id, {"cc": Score.of(0.9, parts={"objects": halves[item.case], "background": Score.of(0.7)})})
        for item in suite.items
    ]
    results = Results("x", rows)
    cell = cells(suite, results, "consistency")["objects, features"]["T1"]
    assert (cell.value, cell.count, cell.num_missing) == (50.0, 1, 1)
    assert values(suite, results, "leaderboard")["all"]["CC T1"] == pytest.approx(60.0)


def test_changes_of_quality_are_given_in_both_ways(data):
    suite = EdiVal(data)
    ratings = {"0": 5.0, "1": 3.0, "3": 4.6}
    light = [Evidence("luminance of the edited picture", numbers={"99 %": 0.5, "99.9 %": 0.6})]
    rows = []
    for item in suite.items:
        rating = ratings[item.case]
        parts = {"base": Score.of(4.0), "change": Score.of(rating - 4.0)}
        rows.append(row_of(suite, item.id, {"vq": Score.of(rating, parts=parts, evidence=light)}))
    numbers = values(suite, Results("x", rows), "quality")
    assert {name: row["T2"] for name, row in numbers.items()} == pytest.approx(
        {"VQ": 4.2, "base": 4.0, "change of the mean": 0.2, "mean change": 2.6 / 3}
    )
    light_found = values(suite, Results("x", rows), "luminance")
    assert {name: row["T1"] for name, row in light_found.items()} == pytest.approx(
        {"99.9 %, edited": 60.0, "99.9 %, base": None, "99 %, edited": 50.0, "99 %, base": None}
    )
    assert not any("linear light" in note for note in table(suite, Results("x", rows), "luminance").notes)
    official = [
        replace(row, scores={"vq": row.scores["vq"].with_signature("edival-vq@1/official/instruction")}) for row in rows
    ]
    assert any("linear light" in note for note in table(suite, Results("x", official), "luminance").notes)


def test_the_shares_of_figure_1_have_both_thresholds_in_them(data):
    """CC and VQ of three pictures: (0.90, 6.0) passes, (0.95, 5.9) and (0.89, 8.0) do each by half."""
    suite = EdiVal(data)
    given = {"0": (0.90, 6.0), "1": (0.95, 5.9), "3": (0.89, 8.0)}
    scores = {case: {"cc": Score.of(cc), "vq": Score.of(vq)} for case, (cc, vq) in given.items()}
    rows = [row_of(suite, item.id, scores[item.case]) for item in suite.items]
    shares = {name: row["T1"] for name, row in values(suite, Results("x", rows), "pass-rates").items()}
    two, one = pytest.approx(200 / 3), pytest.approx(100 / 3)
    assert shares == {"CC of at least 90 %": two, "VQ of at least 6": two, "both": one}
    scores["3"]["cc"] = Score.not_applicable("no object")
    cell = cells(suite, Results("x", rows), "pass-rates")["VQ of at least 6"]["T1"]
    assert (cell.value, cell.count, cell.num_missing) == (50.0, 2, 0)


def test_o_over_turns_is_the_root_of_both_means(data):
    """IF 1, 2/3, 1/3 and CC 0.9, 0.8, 0.7 at three turns: the root of 2/3 times 0.8."""
    suite = EdiVal(data)
    rows = []
    for item in suite.items:
        turn = int(item.labels["turn"])
        half = Score.of(1.0 - turn / 10)
        followed = Score.of(float((item.case, turn) not in {("0", 2), ("1", 3)}))
        scores = {"if": followed, "cc": Score.of(half.value or 0, parts={"objects": half, "background": half})}
        rows.append(row_of(suite, item.id, scores))
    board = values(suite, Results("x", rows), "leaderboard")["all"]
    assert board["O over turns"] == pytest.approx(100 * (2 / 3 * 0.8) ** 0.5)
    assert board["O T3"] == pytest.approx(100 * (1 / 3 * 0.7) ** 0.5)


def test_padded_pictures_have_a_table_of_their_own(data):
    suite = EdiVal(data)
    whole = Score.of(0.9, parts={"objects": Score.of(0.9), "background": Score.of(0.8)})
    labels = [{**item.labels, "shape": "padded" if item.case == "1" else "square"} for item in suite.items]
    rows = [
        ResultRow(item.id, item.case, label, {"cc": whole}) for item, label in zip(suite.items, labels, strict=True)
    ]
    computed = {one.name: ComputedTable.compute(one, None) for one in suite.tables(Results("x", rows))}
    assert computed["consistency-padded"].cells["background, features"]["T2"].count == 1
    assert computed["consistency-square"].cells["background, features"]["T2"].count == COUNT - 1


@pytest.mark.parametrize("mode", ["multipass", "singlepass"])
@pytest.mark.parametrize(
    ("protocol", "signatures"),
    [
        (None, ("edival-if@3/paper", "edival-cc@3/fixed")),
        ("paper", ("edival-if@3/paper", "edival-cc@3/fixed")),
        ("official", ("edival-if@3/official", "edival-cc@3/official")),
        ("official-fixed", ("edival-if@3/official", "edival-cc@3/fixed")),
    ],
)
def test_protocols_name_how_following_and_consistency_are_judged(
    data: Path, mode: str, protocol: str | None, signatures: tuple[str, str]
) -> None:
    specs = EdiVal(data, mode=mode, vq_prompt="empty").metrics(protocol)  # type: ignore[arg-type]
    assert list(specs) == ["if", "cc", "vq"]
    built = [build(spec) for spec in specs.values()]
    inside = [built[0].following, built[1].metric] if mode == "singlepass" else built[:2]
    assert (inside[0].signature, f"{inside[1].card.signature}/{inside[1].protocol}") == signatures
    assert (built[2].prompt, built[2].protocol) == (
        "empty",
        "official" if "if@3/official" in signatures[0] else "paper",
    )


@pytest.mark.parametrize("mode", ["multipass", "singlepass"])
def test_the_released_code_rates_with_the_last_instruction_and_its_quotes(data: Path, mode: str) -> None:
    suite = EdiVal(data, mode=mode)  # type: ignore[arg-type]
    published = {item.id: suite.turns[item.id].instructions[-1] for item in suite.items}
    assert {item.id: rating_instruction(item.sample) for item in suite.items} == published
    assert any(text.startswith('"') for text in published.values())


def test_what_does_not_exist_is_refused_with_what_does(data: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no mode 'both': expected one of multipass, singlepass"):
        EdiVal(data, mode="both")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="compression=keep is for mode=singlepass"):
        EdiVal(data, compression="keep")
    with pytest.raises(InputError, match="does not exist: give the folder with oai_instruction"):
        EdiVal(tmp_path / "none")
    with pytest.raises(InputError, match="contains no CSV file"):
        EdiVal(tmp_path)


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


def test_equal_data_has_one_digest_wherever_it_lies(data, tmp_path):
    folder = write_data(tmp_path / "data", chained(), nested="")
    suite = EdiVal(folder)
    assert suite.digest == EdiVal(data).digest
    assert EdiVal(folder / "oai_instruction_generation_output.csv").digest == suite.digest
    assert EdiVal(write_data(tmp_path / "less", chained()[:2])).digest != suite.digest
    assert EdiVal(data, mode="singlepass").digest != suite.digest


def test_options_are_what_results_depend_on(data):
    plain = {"mode": "multipass", "incomplete": "later", "vq": True, "vq_prompt": "instruction"}
    assert EdiVal(data).options == plain
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
    again = EdiVal(folder / "oai_instruction_generation_output.csv", images=str(outputs / "multipass"))
    assert [item.id for item in again.items] == [item.id for item in suite.items]


def test_outputs_may_lie_in_the_folder_of_their_mode_or_right_in_it(data, tmp_path):
    suite, outputs = EdiVal(data), write_outputs(tmp_path, chained())
    assert suite.find_output(outputs, suite.items[0]) == outputs / "multipass" / "0_input_raw_turn_1.png"
    assert suite.find_output(outputs / "multipass", suite.items[0]) == outputs / "multipass" / "0_input_raw_turn_1.png"
    (outputs / "multipass" / "0_input_raw_turn_1.png").rename(outputs / "multipass" / "0_input_raw_turn_1.jpg")
    assert suite.find_output(outputs, suite.items[0]) == outputs / "multipass" / "0_input_raw_turn_1.jpg"
    (outputs / "multipass" / "0_input_raw_turn_1.jpg").unlink()
    assert suite.find_output(outputs, suite.items[0]) is None


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
